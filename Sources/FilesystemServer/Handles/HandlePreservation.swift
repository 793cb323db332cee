// SPDX-License-Identifier: Apache-2.0
import VersionStore

/// The preserved contents of a handle's file, and whether further contents must be preserved when the handle is closed.
///
/// 1. `writesToOrphan` never becomes false again.
/// 2. The handle counts as a writer of each linked version until it takes the version out, when it is closed or its open fails.
struct HandlePreservation {
    /// Whether the file was replaced or deleted before this open. If so, the contents that the program leaves in the file are
    /// preserved.
    private(set) var writesToOrphan = false
    /// The versions that are links to the file. Each was made before another program replaced or deleted the file.
    private(set) var linkedVersions: [LinkedVersion] = []
    var closes = ClosePreservation()
    /// Holds the node of a closed handle until its linked versions are released. A program that opens the file by another name
    /// in the meantime then finds the node, and waits.
    private(set) var retainedNode: RetainedNode?

    var hasWorkAtClose: Bool { !linkedVersions.isEmpty || writesToOrphan || retainedNode != nil }

    mutating func becomeOrphanWriter() { writesToOrphan = true }
    mutating func add(_ version: LinkedVersion) { linkedVersions.append(version) }

    mutating func retain(_ node: RetainedNode?) { retainedNode = node }
    mutating func takeRetainedNode() -> RetainedNode? { retainedNode.take() }

    mutating func takeLinkedVersions() -> [LinkedVersion] {
        defer { linkedVersions = [] }
        return linkedVersions
    }
}

/// The preservation of the contents that a writer leaves in the file at close(2).
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
        /// Whether any later change of the file would change the stamp.
        let isSure: Bool
        /// The number of closes so far at which contents had to be preserved.
        let count: Int
        /// The last version that has these contents.
        var version: VersionID?
    }

    /// The most closes of a handle that preserve contents. After these, contents are preserved only when the handle ends.
    ///
    /// A shell closes a copy of its descriptor after each command, and the kernel does not tell which copy is the last. Without
    /// this limit, the daemon would copy a long log after each line.
    private static let mostRecorded = 3

    private var progress = Progress.idle
    private var record: Record?

    /// Whether all contents that the program has left in the file were preserved at close(2). Contents that are written later
    /// are another program's.
    var isComplete: Bool { record.map { $0.count <= Self.mostRecorded } ?? false }

    /// The last version of the contents that the program has left in the file.
    var version: VersionID? { record?.version }
    mutating func noteVersion(_ version: VersionID) { record?.version = version }

    /// Records a close(2). Returns true if the file may have contents that were not preserved at an earlier close(2), and they
    /// must be preserved now.
    mutating func recordClose(_ stamp: Stamp, isSure: Bool, hasWritten: Bool) -> Bool {
        if let record, record.isSure, isSure, record.stamp.hasSameContents(as: stamp) { return false }
        let count = (record?.count ?? 0) + (hasWritten && stamp.size > 0 ? 1 : 0)
        record = Record(stamp: stamp, isSure: isSure, count: count, version: record?.version)
        return count <= Self.mostRecorded
    }

    /// Begins to preserve contents. If another close(2) of the handle is preserving contents, returns false, and `again` runs
    /// after that close.
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
