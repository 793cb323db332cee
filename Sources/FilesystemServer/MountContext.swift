// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import History
import LinuxSystem
import Synchronization
import VersionStore

/// The settings and shared objects of one mount, which all its services use.
final class MountContext: Sendable {
    let engine: Engine
    let connection: Connection
    let configuration: MountConfiguration
    /// The features that the kernel agreed to when the connection opened.
    let agreement: @Sendable () -> ConnectionFeatures
    let processes: ProcessResolver
    /// The rules for paths of the configuration files, which ``policy(of:forFileAt:usedBy:)`` looks up.
    let policies: PathPolicies
    let store: VersionStore?
    /// Collects what programs do with documents.
    let history: HistoryRecorder
    let submounts: Submounts
    let threads: WorkerPools
    /// Whether a change always gives a file new times, if the file's times were read before the change. If not, two
    /// changes in quick succession may leave the same times.
    let hasFineTimes: Bool
    /// The time at which the mount began, in seconds since 1970. Two seconds are subtracted, because file systems round
    /// file times.
    ///
    /// If a file was last changed before this time, the attributes that the kernel has cached are correct.
    let began = WallClock.nanoseconds() / 1_000_000_000 - 2
    /// True once the FUSE connection has ended. A claim that is granted after that has no request to continue: the
    /// request was already answered with ENOTCONN.
    let isOver = Atomic(false)
    /// The longest time that a request may wait; nil if the kernel sets no limit.
    let longestWait = Bounds.longestWait

    /// `root` is the source. It was opened before the mount was made.
    init(
        of root: borrowing OwnedDescriptor, engine: Engine, connection: Connection,
        configuration: MountConfiguration, at mount: MountEntry, store: VersionStore?, history: HistoryLog?,
        agreement: @escaping @Sendable () -> ConnectionFeatures
    ) throws(Errno) {
        self.engine = engine
        self.connection = connection
        self.configuration = configuration
        self.agreement = agreement
        self.store = store
        self.history = HistoryRecorder(
            history, engine, isShared: OwnProcess.user == 0 && configuration.allowOther)
        processes = ProcessResolver(
            using: mount, counters: engine.counters, readerIdle: engine.bounds.readerIdle,
            knowing: ProgramClasses(configuration.programs), and: engine.runs)
        policies = PathPolicies(configuration.paths)
        store?.limitHistory { [policies] path in policies.present?.limitsOfHistory(ofFileAt: path) }
        submounts = Submounts(
            source: try root.status(), at: Array(configuration.sourceName.utf8), in: try MountTable.current(),
            forbidden: configuration.forbidden)
        hasFineTimes = FileTimes.detectEveryChange(on: try root.filesystemStatus(), below: root)
        threads = WorkerPools(by: engine.timers, else: engine.workers)
    }

    var hasEnded: Bool { isOver.load(ordering: .relaxed) }
    /// Whether the source has a store, the daemon's own directory.
    var hasStore: Bool { store.map { $0.absence == nil } ?? false }

    /// Whether contents may have to be preserved before a write that endangers nothing (``WriteHistory``).
    @inline(__always)
    var keepsHistory: Bool { !engine.runs.isEmpty || policies.hasWriteRules }

    /// Returns how long the kernel may cache the name and the attributes of a node.
    func validity(of node: Node) -> Validity {
        if submounts.isShared(node.key.mount) { return .none }
        return configuration.isInPlace && node.isMachineLocal ? .long : .brief
    }

    /// Returns whether every change of a name in this directory goes through the mount. Changes to the files below an
    /// in-place mount are disregarded.
    func namesChangeOnlyHere(_ directory: Node) -> Bool {
        let mount = directory.key.mount
        return configuration.isInPlace && hasFineTimes && !submounts.isOnSubmount(mount)
            && !submounts.isShared(mount)
    }

    /// Returns whether a name is that of the store. The store is the daemon's own directory, and programs do not see
    /// it.
    func isPrivate(_ name: borrowing FileName, in parent: NodeID) -> Bool {
        parent == .root && name == ".truce"
    }

    /// Makes an item with a new number, which no other item has.
    func makeItem() -> ItemID { ItemID(1 << 62 | engine.makeClaimID().rawValue) }

    /// Returns whether a file was changed so recently that one more change may leave its times the same.
    ///
    /// Since Linux 6.13, common file systems change a file's times at each change if the times were read before. The
    /// file system of a submount may not do so.
    func isTimeRacy(_ status: FileStatus) -> Bool {
        guard !hasFineTimes || submounts.isOnSubmount(status.mount) else { return false }
        let changed = status.changed.seconds &* 1_000_000_000 &+ Int64(status.changed.nanoseconds)
        return WallClock.nanoseconds() &- changed < FileTimes.granularity(of: status)
    }
}
