// SPDX-License-Identifier: Apache-2.0
import VersionStore

/// The versions that hold the contents of a handle's file, and how its close preserves more.
///
/// 1. `writesToOrphan` only rises.
/// 2. Each linked version counts the handle as a writer until the handle takes them, at its close or failed open.
struct HandlePreservation {
    /// The file was replaced or deleted before this open: its contents are preserved.
    private(set) var writesToOrphan = false
    /// The file was preserved by a link before others replaced or deleted it.
    private(set) var linkedVersions: [LinkedVersion] = []
    var closes = ClosePreservation()

    mutating func becomeOrphanWriter() { writesToOrphan = true }
    mutating func add(_ version: LinkedVersion) { linkedVersions.append(version) }

    mutating func takeLinkedVersions() -> [LinkedVersion] {
        defer { linkedVersions = [] }
        return linkedVersions
    }
}

/// The contents that a writer leaves at close(2), and their preservation.
///
///     idle ──close(2)──▶ running ──more closes wait──▶ running
///      ▲                    │
///      ╰─────preserved──────╯  the waiting closes then begin anew
struct ClosePreservation {
    private enum Progress {
        case idle
        /// The closers that wait while contents are preserved.
        case running([@Sendable () -> Void])
    }

    /// The state of a file when its writer's close(2) was last answered.
    private struct Record {
        let stamp: Stamp
        /// Whether the stamp tells each later change.
        let isSure: Bool
        /// How often the contents were copied.
        let count: Int
        /// The last version of these contents.
        var version: VersionID?
    }

    /// How many closes preserve contents; after that they are preserved when the handle ends.
    ///
    /// A shell closes a copy of its descriptor for each command, and the kernel does not say which copy is the last. A
    /// long log is not copied for each line.
    private static let mostRecorded = 3

    private var progress = Progress.idle
    private var record: Record?

    /// Whether all contents that it left were preserved at close(2). Later contents are not this writer's.
    var isComplete: Bool { record.map { $0.count <= Self.mostRecorded } ?? false }

    /// The last version of the contents that it left.
    var version: VersionID? { record?.version }
    mutating func noteVersion(_ version: VersionID) { record?.version = version }

    /// Returns whether the handle may leave contents that were not preserved at an earlier close(2).
    mutating func recordClose(_ stamp: Stamp, isSure: Bool, hasWritten: Bool) -> Bool {
        if let record, record.isSure, isSure, record.stamp.hasSameContents(as: stamp) { return false }
        let count = (record?.count ?? 0) + (hasWritten && stamp.size > 0 ? 1 : 0)
        record = Record(stamp: stamp, isSure: isSure, count: count, version: record?.version)
        return count <= Self.mostRecorded
    }

    /// Returns false if another close(2) preserves contents now; `again` then runs after it.
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

    /// Returns the closes that waited.
    mutating func end() -> [@Sendable () -> Void] {
        guard case .running(let closers) = progress else { return [] }
        progress = .idle
        return closers
    }
}
