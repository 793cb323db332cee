// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem
import Synchronization
import VersionStore

/// The values of one mount that all services read.
final class MountContext: Sendable {
    let engine: Engine
    let connection: Connection
    let configuration: MountConfiguration
    /// The features that the kernel agreed to when the connection opened.
    let agreement: @Sendable () -> ConnectionFeatures
    let processes: ProcessResolver
    let store: VersionStore?
    let submounts: Submounts
    let threads: WorkerPools
    /// Whether each change after an observation of a file is visible in its times.
    let hasFineTimes: Bool
    /// Seconds since 1970 at which the mount began, less the rounding of file times. The kernel's attributes of files
    /// that have not changed since then are correct.
    let began = WallClock.nanoseconds() / 1_000_000_000 - 2
    /// True once the FUSE connection has ended; later grants were already answered ENOTCONN.
    let isOver = Atomic(false)

    /// `root` is the source, which must have been opened before the mount.
    init(
        of root: borrowing OwnedDescriptor, engine: Engine, connection: Connection,
        configuration: MountConfiguration, at mount: MountEntry, store: VersionStore?,
        agreement: @escaping @Sendable () -> ConnectionFeatures
    ) throws(Errno) {
        self.engine = engine
        self.connection = connection
        self.configuration = configuration
        self.agreement = agreement
        self.store = store
        processes = ProcessResolver(
            using: mount, counters: engine.counters, readerIdle: engine.bounds.readerIdle,
            knowing: ProgramClasses(configuration.programs))
        submounts = Submounts(
            source: try root.status(), at: Array(configuration.sourceName.utf8), in: try MountTable.current(),
            forbidden: configuration.forbidden)
        hasFineTimes = FileTimes.detectEveryChange(on: try root.filesystemStatus(), below: root)
        threads = WorkerPools(by: engine.timers, else: engine.workers)
    }

    var hasEnded: Bool { isOver.load(ordering: .relaxed) }
    /// Whether the source holds the daemon's own directory.
    var hasStore: Bool { store.map { $0.absence == nil } ?? false }

    /// How long the kernel may cache names and attributes.
    func validity(of node: Node) -> Validity {
        if submounts.isShared(node.key.mount) { return .none }
        return configuration.isInPlace && node.isMachineLocal ? .long : .brief
    }

    /// Whether names in a directory change only through the mount, except for out-of-band changes of an in-place mount.
    func namesChangeOnlyHere(_ directory: Node) -> Bool {
        let mount = directory.key.mount
        return configuration.isInPlace && hasFineTimes && !submounts.isOnSubmount(mount)
            && !submounts.isShared(mount)
    }

    /// The daemon's own directory at the root of the source is hidden from programs.
    func isPrivate(_ name: borrowing FileName, in parent: NodeID) -> Bool {
        parent == .root && name == ".truce"
    }

    /// A new item that no document has.
    func makeItem() -> ItemID { ItemID(1 << 62 | engine.makeClaimID().rawValue) }

    /// Whether the file was changed so recently that its clock may not distinguish the next change.
    ///
    /// Since Linux 6.13, common file systems give a change that follows a status query a new time. Submounts may have any
    /// file system.
    func isTimeRacy(_ status: FileStatus) -> Bool {
        guard !hasFineTimes || submounts.isOnSubmount(status.mount) else { return false }
        let changed = status.changed.seconds &* 1_000_000_000 &+ Int64(status.changed.nanoseconds)
        return WallClock.nanoseconds() &- changed < FileTimes.granularity(of: status)
    }
}
