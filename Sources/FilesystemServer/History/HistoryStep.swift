// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import History
import LinuxSystem
import VersionStore

/// A step of a program that the history is to have, as a request has noted it. A worker makes a line of it later.
///
/// A step holds no file: a removed file would keep its blocks until the worker is done.
struct HistoryStep: Sendable {
    enum Kind: Sendable {
        case created
        /// The program has closed a file that it could write to. The file has changed if it differs from the baseline; nil
        /// means that it has changed in any case.
        case closed(Baseline?)
        case removed(FileRights)
        /// `replaces`: whether another file had the new name.
        case renamed(to: NameBytes, in: Node, replaces: Bool)
        /// Two files have exchanged their names.
        case exchanged(with: NameBytes, in: Node)
        case read
        /// Contents were preserved as this version, before the program takes a step that replaces them.
        case preserved(VersionID, PreservationCause)
        /// A run is about to write a file that is empty, so there are no contents to preserve.
        case foundEmpty
    }

    let kind: Kind
    let name: NameBytes
    let directory: Node?
    let moment: Instant
    let author: Author?
    let user: UInt32?
}

extension FileRights {
    /// The rights of a file that is gone, and whose access control list is not known. The list can take rights from the group,
    /// so the group has only those rights that all users have.
    static func lastKnown(_ status: FileStatus) -> FileRights {
        let others = status.mode & 0o007
        return FileRights(
            user: status.user, group: status.group, mode: status.mode & ~0o070 | others << 3,
            accessControlList: nil)
    }
}

/// A step of the engine that the history is to have.
struct EngineStep: Sendable {
    let kind: JournalEntry.Step
    let moment: Instant
    let subject: any JournalSubject
    let detail: String
}

extension HistoryEvent {
    /// The event that a program has saved over contents that it had not read. The contents are preserved as a version.
    init(savedOver version: VersionRecord, at path: [UInt8]) {
        self.init(.savedOver, path, at: WallClock.nanoseconds())
        if let saver = version.provenance?.saver { actor = HistoryActor(saver) }
        author = version.provenance?.author.map { HistoryActor($0) }
        self.version = version.id.description
        (rights, closed) = (version.rights, version.closed)
    }
}

extension HistoryActor {
    /// The time at which the daemon began, in nanoseconds since 1970.
    private static let daemonBegan = WallClock.nanoseconds()

    /// A name of a run that no run of another daemon has: each daemon numbers its runs from 1, and process IDs come again.
    static func identity(of run: RunID) -> String { "\(daemonBegan)-\(run.number)" }

    fileprivate init(_ actor: VersionActor) {
        self.init(
            program: Array(actor.program.utf8), process: actor.process ?? 0, user: actor.user,
            run: actor.run.map { Array($0.utf8) })
    }
}
