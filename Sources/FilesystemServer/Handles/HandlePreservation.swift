// SPDX-License-Identifier: Apache-2.0
import VersionStore

/// Which contents of a handle's file are preserved, and whether more must be preserved when the handle is closed.
///
/// 1. `writesToOrphan` never becomes false again.
/// 2. The handle counts as a writer of each linked version until it takes them out, when it is closed or its open fails.
struct HandlePreservation {
    /// Whether the file was replaced or deleted before this open. What the program leaves in it is preserved.
    private(set) var writesToOrphan = false
    /// The versions that are links to the file. They were made before another program replaced or deleted it.
    private(set) var linkedVersions: [LinkedVersion] = []
    var closes = ClosePreservation()

    mutating func becomeOrphanWriter() { writesToOrphan = true }
    mutating func add(_ version: LinkedVersion) { linkedVersions.append(version) }

    mutating func takeLinkedVersions() -> [LinkedVersion] {
        defer { linkedVersions = [] }
        return linkedVersions
    }
}

/// The contents that a writer leaves in the file at close(2), and whether they are being preserved.
///
///     idle ──close(2)──▶ running ──more closes wait──▶ running
///      ▲                    │
///      ╰─────preserved──────╯  the waiting closes then begin anew
struct ClosePreservation {
    private enum Progress {
        case idle
        /// The contents are being preserved. Other closes of the handle wait, and are in this list.
        case running([@Sendable () -> Void])
    }

    /// The state of the file when a close(2) of its writer was last answered.
    private struct Record {
        let stamp: Stamp
        /// Whether each later change would change the stamp.
        let isSure: Bool
        /// How many times the contents had to be preserved so far.
        let count: Int
        /// The last version that has these contents.
        var version: VersionID?
    }

    /// How many closes of a handle preserve contents. After that, contents are preserved only when the handle ends.
    ///
    /// A shell closes a copy of its descriptor after each command, and the kernel does not tell which copy is the last. So a
    /// long log is not copied after each line.
    private static let mostRecorded = 3

    private var progress = Progress.idle
    private var record: Record?

    /// Whether all contents that the program has left in the file were preserved at close(2). Later contents are another
    /// program's.
    var isComplete: Bool { record.map { $0.count <= Self.mostRecorded } ?? false }

    /// The last version of the contents that the program has left in the file.
    var version: VersionID? { record?.version }
    mutating func noteVersion(_ version: VersionID) { record?.version = version }

    /// Records a close(2). Returns whether the program may leave contents that were not preserved at an earlier close(2).
    mutating func recordClose(_ stamp: Stamp, isSure: Bool, hasWritten: Bool) -> Bool {
        if let record, record.isSure, isSure, record.stamp.hasSameContents(as: stamp) { return false }
        let count = (record?.count ?? 0) + (hasWritten && stamp.size > 0 ? 1 : 0)
        record = Record(stamp: stamp, isSure: isSure, count: count, version: record?.version)
        return count <= Self.mostRecorded
    }

    /// Begins to preserve contents. Returns false if another close(2) of the handle is preserving contents; `again` runs after
    /// it.
    mutating func begin(orElse again: @escaping @Sendable () -> Void) -> Bool {
        switch progress {
        case .idle:
            progress = .running([])
            return true
        case .running(var closers):
            closers.append(again)
            progress = .running(closers)
            return false
        }
    }

    /// Ends the preservation. Returns the closes that have waited for its end.
    mutating func end() -> [@Sendable () -> Void] {
        guard case .running(let closers) = progress else { return [] }
        progress = .idle
        return closers
    }
}
