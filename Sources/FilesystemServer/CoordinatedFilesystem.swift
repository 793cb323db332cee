// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem
import Synchronization
import VersionStore

/// A directory seen through the mount, where programs take turns.
///
/// The requirements of `Filesystem` are met below `Operations`, in one file for each concern.
final class CoordinatedFilesystem: Filesystem {
    let engine: Engine
    let connection: Connection
    let configuration: MountConfiguration
    let nodes: NodeTable
    let memoryTrimmer: MemoryTrimmer
    let places: PlaceRegistry
    let documents: DocumentTable
    let handles = HandleTable()
    let lingeringHandles = LingeringHandles()
    let advisoryLocks = AdvisoryLocks()
    let listings = ListingTable()
    let pendingListings = PendingListings()
    let pageCachePolicy = PageCachePolicy()
    let processes: ProcessResolver
    let retries = RetryTable()
    let writerMonitor = OpenWriterMonitor()
    let expectedRetries = ExpectedRetries<PendingOpen>()
    let parkedRequests: ParkedRequests
    /// Limits the log lines about users with too many waiting opens, which may be deliberate.
    let crowdLines = Mutex(LogRateLimiter(lines: 1))
    let openQueue: OpenQueue
    let saves: SaveTracker
    let deferredDeletions = DeferredDeletions()
    let statLedger: StatLedger
    let preserver: ContentPreserver
    /// Makes files as the requester, if the current thread cannot.
    let makers: WorkerPool
    /// The features that the kernel agreed to when the connection opened.
    let agreement: @Sendable () -> ConnectionFeatures
    /// Whether each change after an observation of a file is visible in its times.
    let hasFineTimes: Bool
    let threads: WorkerPools
    let submounts: Submounts
    /// Nil for an in-place mount, where no path leads to the files out of band.
    let sourceWatcher: SourceWatcher?
    let rightsWatcher: RightsWatcher?
    /// When a file of the source was last opened for writing, or 0.
    let lastOpenedToWrite = Atomic<UInt64>(0)
    /// Seconds since 1970 at which the mount began, less the rounding of file times. The kernel's attributes of files
    /// that have not changed since then are correct.
    let began = WallClock.nanoseconds() / 1_000_000_000 - 2
    /// How often each data route was used so far.
    let routeStatistics = DataRouteStatistics()
    /// True once the FUSE connection has ended; later grants were already answered ENOTCONN.
    let isOver = Atomic(false)
    var hasEnded: Bool { isOver.load(ordering: .relaxed) }

    /// `root` must have been opened before the mount, which may cover it.
    init(
        mirroring root: consuming OwnedDescriptor, engine: Engine, connection: Connection,
        configuration: MountConfiguration, of mount: MountEntry, descriptorLimit: Int, store: VersionStore?,
        agreement: @escaping @Sendable () -> ConnectionFeatures
    ) throws(Errno) {
        self.engine = engine
        self.connection = connection
        self.configuration = configuration
        self.agreement = agreement
        let programs = ProgramClasses(configuration.programs)
        processes = ProcessResolver(
            using: mount, counters: engine.counters, readerIdle: engine.bounds.readerIdle, knowing: programs)
        saves = SaveTracker(knowing: programs)
        parkedRequests = ParkedRequests(timers: engine.timers, counters: engine.counters)
        openQueue = OpenQueue { [timers = engine.timers] body in
            timers.schedule(at: (Engine.now + .milliseconds(100)).nanoseconds, body)
        }
        statLedger = StatLedger(askAgain: engine.bounds.askAgainStat)
        preserver = ContentPreserver(store: store, engine: engine)
        makers = try WorkerPool(threads: 1) {
            // Without this the thread makes no files; it never makes them as another user.
            do { try ThreadIdentity.prepare() } catch { engine.log("a thread cannot make files: \(error)") }
        }
        let fileHandles = FileHandleResolver(below: root)
        let budget = DescriptorBudget(limit: descriptorLimit, handles: fileHandles)
        sourceWatcher =
            configuration.isInPlace
            ? nil : SourceWatcher(of: root, hasHandles: fileHandles != nil, log: { engine.log($0) })
        // If only root or only one user has access, no rights need watching.
        rightsWatcher =
            configuration.isInPlace && configuration.allowOther && fileHandles != nil
            ? RightsWatcher(of: root) : nil
        let status = try root.status()
        let source = try root.filesystemStatus()
        submounts = Submounts(
            source: status, at: Array(configuration.sourceName.utf8), in: try MountTable.current(),
            forbidden: configuration.forbidden)
        hasFineTimes = FileTimes.detectEveryChange(on: source, below: root)
        let forgottenDirectories = ForgottenDirectories()
        threads = WorkerPools(by: engine.timers, else: engine.workers)
        let context = Node.Context(
            budget: budget, connection: connection, forgottenDirectories: forgottenDirectories,
            submounts: submounts,
            source: source, threads: threads)
        let node = Node(.root, status, parent: nil, name: NameBytes([]), context: context)
        _ = node.cache(SharedDescriptor(root, of: budget))
        _ = try node.pin()
        nodes = NodeTable(
            root: node, context: context, observer: sourceWatcher)
        budget.findOwners { [unowned nodes, unowned handles, unowned listings] keeper in
            switch keeper {
            case .node(let id): nodes[id]
            case .file(let id): handles[id]
            case .listing(let id): listings[id]
            }
        }
        memoryTrimmer = MemoryTrimmer(of: nodes, engine: engine)
        places = PlaceRegistry(engine: engine, forgottenDirectories: forgottenDirectories)
        documents = DocumentTable(nodes: nodes, places: places)
        saves.onNameResolved { [unowned self] name, directory in completeLookupWaits(for: name, in: directory)
        }
        saves.onProgress { [unowned self] directory in resumeListings(directory) }
    }

    // A node may outlive the tables, because the engine remembers the maker of a claim for a while.
    deinit { nodes.root.budget.findOwners { _ in nil } }

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

    func interrupted(_ token: UInt) { parkedRequests.interrupted(token) }

    func noteSlowRequest(_ nanoseconds: UInt64) {
        let milliseconds = nanoseconds / 1_000_000
        engine.log(
            "the file system below took \(milliseconds) ms for a request; other requests waited for it")
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
