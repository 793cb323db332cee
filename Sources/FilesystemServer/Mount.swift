// SPDX-License-Identifier: Apache-2.0
package import Coordination
package import CoordinationEngine
import FuseBridge
import Glibc
package import History
package import LinuxSystem
import Synchronization
package import VersionStore

/// The options of one mount.
package struct MountConfiguration: Sendable {
    package var bounds = Bounds()
    package var allowOther = false
    package var readOnly = false
    package var nosuid = false
    package var nodev = false
    package var noexec = false
    package var data = DataMode.automatic
    package var isInPlace = true
    /// Whether the mount point has a dead mount, which the new mount replaces. A mount is dead if its daemon has ended.
    package var replacesDeadMount = false
    package var sourceName = ""
    /// The path of the control socket for all users of the mount.
    package var socketPath: String?
    /// The path of the control socket for root and the mount's owner. It may be the same path as ``socketPath``.
    package var ownerSocketPath: String?
    /// The rules that give programs a class by their names. The first rule that fits a name decides.
    package var programs: [ProgramRule] = []
    /// The rules for files with certain paths. The last rule that fits decides.
    package var paths: [PathRule] = []
    /// The rules about programs in the form for the status report, each with the file that it comes from.
    package var rules = RulesReport()
    package init() {}
}

/// The reason why a mount could not be made, as one sentence for people.
package struct MountError: Error, Sendable {
    package let message: String
    package let errno: Errno

    package init(message: String, errno: Errno) {
        self.message = message
        self.errno = errno
    }
}

/// One mounted directory, from mount to unmount.
package final class Mount: StatusSource {
    private let configuration: MountConfiguration
    private let mountpoint: String
    private let session: FuseSession
    private let filesystem: CoordinatedFilesystem
    private let end: ServiceShutdown
    /// The new mount's entry in the system's mount table.
    private let entry: MountEntry
    /// The rules of the configuration files, in the form for the status report.
    private let rules: Mutex<RulesReport>
    package let engine: Engine

    /// Mounts the source. Until ``serve()`` is called, requests of programs wait in the kernel.
    package init(
        mirroring source: consuming OwnedDescriptor, at mountpoint: String,
        configuration: MountConfiguration, store: VersionStore?, history: HistoryLog? = nil,
        log: @escaping @Sendable (String) -> Void
    ) throws(MountError) {
        var configuration = configuration
        configuration.bounds.stayBelowRequestTimeout()
        self.configuration = configuration
        rules = Mutex(configuration.rules)
        self.mountpoint = mountpoint
        let before: MountTable
        do throws(Errno) {
            // The right to exceed quotas and to use reserved blocks is given up before threads start, because new threads
            // inherit it.
            do throws(Errno) {
                try ThreadIdentity.dropResourceCapability()
            } catch {
                log("what is written through the mount may exceed quotas: \(error)")
            }
            engine = Engine(
                bounds: configuration.bounds, timers: try Timers(),
                workers: try WorkerPool(
                    threads: Self.workerThreads, onThreadStart: ThreadIdentity.prepareIfPossible),
                sharedBy: configuration.allowOther ? geteuid() : nil, log: log)
            end = try ServiceShutdown()
            before = try MountTable.current()
            session = try FuseSession(
                at: mountpoint, over: try Self.place(at: mountpoint, showing: source, configuration),
                options: configuration.libraryOptions,
                replacing: try Self.deadMount(at: mountpoint, hiding: source, configuration),
                with: configuration.settings, wanting: Self.features)
        } catch {
            throw MountError(message: "cannot mount at \(mountpoint): \(error)", errno: error)
        }
        entry = try Self.newMount(
            by: session, at: mountpoint, of: configuration.sourceName, since: before, log)
        do throws(Errno) {
            filesystem = try CoordinatedFilesystem(
                mirroring: source, engine: engine, connection: session.connection,
                configuration: configuration, of: entry,
                descriptorLimit: Self.descriptorLimit, store: store, history: history,
                agreement: session.agreement)
        } catch {
            Self.takeBack(entry, log)
            throw MountError(message: "cannot serve \(mountpoint): \(error)", errno: error)
        }
    }

    /// Answers requests. Returns when the mount is gone, or is unmounted and unused (see ``DetachedMountMonitor``).
    package func serve() throws(Errno) {
        try DetachedMountMonitor(from: entry, filesystem, lastRequest: session.lastRequest).prepare(end)
        filesystem.merger.completeMerges(below: filesystem.tree.nodes.root)
        if let rights = filesystem.rightsWatcher {
            try JoinableThread { [filesystem] in rights.run(filesystem.outOfBand) }.detach()
        }
        pruneLater()
        synchronizeVersionsWhenDeferred()
        if let watching = SourceWatchThread(filesystem.outOfBand) {
            try JoinableThread { watching.run() }.detach()
        }
        try JoinableThread { [filesystem, mountpoint, engine] in
            SleepInhibitor(filesystem.coordinator.parkedRequests, of: mountpoint, log: engine.log).run()
        }.detach()
        try session.serve(filesystem, threads: Self.loopThreads, timers: engine.timers, until: end)
        // The mount has ended. Handles that were closed last, and handles that are still open, may have contents to
        // preserve.
        filesystem.context.isOver.store(true, ordering: .sequentiallyConsistent)
        endWaits()
        filesystem.closer.preserveAtUnmount()
        let end = Engine.now + Self.longestShutdown
        let areDone = engine.workers.finish(until: end.nanoseconds)
        let areAll = filesystem.context.threads.finish(until: end.nanoseconds) && areDone
        engine.workers.run { [filesystem] in
            filesystem.preserver.settle()
            filesystem.unseenOverwrites.sightings.saved.save(
                to: filesystem.context.store, below: filesystem.tree.nodes.root.key)
            filesystem.context.history.flush()
        }
        if !engine.workers.finish(until: end.nanoseconds) || !areAll {
            engine.log("ended with work undone after \(Self.longestShutdown)")
        }
    }

    /// Brings versions to the disk soon after they were preserved with a deferred durability.
    private func synchronizeVersionsWhenDeferred() {
        filesystem.context.store?.whenDeferred { [weak self] in
            guard let self else { return }
            engine.timers.schedule(at: (Engine.now + Self.deferralPause).nanoseconds) { [weak self] in
                self?.engine.workers.run { [weak self] in self?.filesystem.preserver.synchronizeDeferred() }
            }
        }
    }

    /// Every ten minutes, removes the versions that are older than the store's limit allows.
    private func pruneLater() {
        guard filesystem.context.hasStore else { return }
        engine.timers.schedule(at: (Engine.now + Self.prunePause).nanoseconds) { [weak self] in
            guard let self, !filesystem.context.isOver.load(ordering: .relaxed) else { return }
            engine.workers.run { [weak self] in
                self?.filesystem.preserver.prune()
                self?.filesystem.context.history.prune()
                self?.pruneLater()
            }
        }
    }

    /// Unmounts the mount, even if its mount point was renamed. Any thread may call this.
    ///
    /// Open files stay open. Returns whether the mount is gone, also if it was gone before the call.
    @discardableResult
    package func detach() -> Bool {
        do throws(Errno) {
            _ = try entry.detach { [engine, mountpoint] inside in
                let places = inside.map { String(decoding: $0.mountpoint, as: UTF8.self) }
                engine.log(
                    "\(mountpoint) is unmounted, and with it what is mounted in it: "
                        + places.joined(separator: ", "))
            }
            return true
        } catch {
            engine.log("cannot unmount \(mountpoint): \(error)")
            return false
        }
    }

    /// Ends the waits of all parked requests. From then on, a request that would have to wait is answered without a
    /// wait.
    package func endWaits() { filesystem.coordinator.parkedRequests.close() }

    /// Replaces the rules of the configuration files. Any thread may call this.
    package func replaceRules(programs: [ProgramRule], paths: [PathRule], report: RulesReport) {
        filesystem.context.processes.programs.replace(by: programs)
        if filesystem.context.policies.replace(by: paths) { filesystem.tree.nodes.resetClasses() }
        rules.withLock { $0 = report }
    }

    /// Returns the rules for paths that decide about a file, in the order in which they decide.
    ///
    /// `path` is the path of the file from the source's root. A setting without a rule has its standard value.
    package func rules(forFileAt path: [UInt8]) -> [PathRule] {
        filesystem.context.policies.present?.rules(forFileAt: path) ?? []
    }

    /// Finds documents by their paths for the control socket.
    package var documents: any DocumentSource { filesystem.finder }

    package func status() -> StatusReport {
        var options = EffectiveOptions()
        options.bounds = configuration.bounds
        options.data = configuration.data
        options.allowOther = configuration.allowOther
        options.readOnly = configuration.readOnly
        options.nosuid = configuration.nosuid
        options.nodev = configuration.nodev
        options.noexec = configuration.noexec
        options.isInPlace = configuration.isInPlace
        var report = engine.report(options: options, dataPath: filesystem.data.dataPath)
        report.use.openFiles = filesystem.tree.handles.count
        report.use.routes = filesystem.data.routeStatistics.open
        report.use.backingFiles = session.connection.backingFiles
        report.use.descriptors = filesystem.tree.nodes.root.budget.open
        report.sourceWatch = filesystem.sourceWatch.watcher?.watchReport
        report.rules = rules.withLock { $0 }
        return report
    }
}

extension Mount {
    /// The number of threads that answer requests. While one thread works on a long request, the second thread answers
    /// other requests. Work that may block is done on other threads. D81 says how these threads wait for requests.
    private static let loopThreads = 2
    /// The number of threads for work that may block: preserving, syncing, copying, and data that the kernel does not
    /// move.
    private static let workerThreads = 4

    private static let prunePause = TimeSpan.seconds(600)
    /// Deferred versions are on the disk within 500 ms. The rest of the time is for the worker.
    private static let deferralPause = TimeSpan.milliseconds(300)

    /// How long preserving and other work may go on after the mount has ended. The time is enough to copy the largest
    /// file that is preserved.
    private static let longestShutdown = TimeSpan.seconds(30)

    private static let features: ConnectionFeatures = [
        .passthrough, .parallelDirectoryOperations, .privilegeClearing, .posixACL, .unmaskedModes, .recalling,
    ]

    /// The most descriptors that the daemon keeps open. More descriptors would save no time. Each descriptor keeps an
    /// inode of the source in memory.
    private static let mostDescriptors = 16_384

    /// The limit of descriptors for inodes, open files and directory listings: half of the process's limit.
    ///
    /// The other half is for descriptors that are open during a single request, and for clients of the control socket.
    private static var descriptorLimit: Int {
        min(max(DescriptorLimit.current / 2, 16), mostDescriptors)
    }

    /// Returns the dead mount that the new mount replaces. Returns nil for users other than root, because `fusermount3`
    /// cannot replace a mount.
    ///
    /// Throws if the dead mount covers a directory that is not the source. The dead mount was then made after the
    /// source was found.
    private static func deadMount(
        at mountpoint: String, hiding source: borrowing OwnedDescriptor, _ configuration: MountConfiguration
    ) throws(Errno) -> DeadMountRoot? {
        guard configuration.replacesDeadMount else { return nil }
        guard let dead = try DeadMountRoot(at: Array(mountpoint.utf8), in: .current()) else { throw .stale }
        if configuration.isInPlace { guard try dead.covers(source) else { throw .stale } }
        return dead
    }

    /// Returns a descriptor of the directory over which root mounts. Root mounts by this descriptor and not by the
    /// path, because another user may change where the path leads.
    ///
    /// Returns nil for users other than root, and if a dead mount hides the directory.
    private static func place(
        at mountpoint: String, showing source: borrowing OwnedDescriptor, _ configuration: MountConfiguration
    ) throws(Errno) -> OwnedDescriptor? {
        guard geteuid() == 0, MountRoot.isPossible else { return nil }
        if configuration.isInPlace { return try OwnedDescriptor.duplicating(source.rawValue) }
        guard !configuration.replacesDeadMount else { return nil }
        return try OwnedDescriptor.openResolved(Array(mountpoint.utf8))
    }

    /// Returns the new mount's entry in the mount table. A later mount at the same path is not returned.
    ///
    /// If the directory was renamed or replaced by a link during the mount call, the new mount has an unexpected path.
    /// The new mount is then unmounted, and an error is thrown.
    private static func newMount(
        by session: borrowing FuseSession, at mountpoint: String, of source: String, since before: MountTable,
        _ log: (String) -> Void
    ) throws(MountError) -> MountEntry {
        let found: MountEntry?
        do throws(Errno) {
            let table = try MountTable.current()
            found =
                if let number = session.mount { table.entry(id: number) } else {
                    table.newMount(
                        at: Array(mountpoint.utf8), from: Array(source.utf8), by: geteuid(),
                        connection: session.connection.number, since: before)
                }
        } catch {
            throw MountError(message: "cannot find the mount at \(mountpoint): \(error)", errno: error)
        }
        guard let found else {
            throw MountError(
                message: "\(mountpoint) was unmounted before it could be served", errno: .noEntry)
        }
        guard found.mountpoint == Array(mountpoint.utf8) else {
            takeBack(found, log)
            throw MountError(
                message: "\(mountpoint) was renamed while it was to be mounted; nothing is mounted there",
                errno: .stale)
        }
        return found
    }

    private static func takeBack(_ entry: MountEntry, _ log: (String) -> Void) {
        do throws(Errno) {
            _ = try entry.detach { _ in }
        } catch {
            log("a mount that cannot be served stays: \(error)")
        }
    }
}

extension Bounds {
    /// Limits `wait` to the longest wait that the kernel permits.
    fileprivate mutating func stayBelowRequestTimeout() {
        wait = min(wait, Self.longestWait ?? wait)
    }

    /// Half of the kernel's time limit for FUSE requests; nil if no administrator has set such a limit.
    ///
    /// When a request takes longer than the limit, the kernel ends the connection. The kernel checks the limit only now and
    /// then, so half of it is safe.
    static var longestWait: TimeSpan? {
        ["max_request_timeout", "default_request_timeout"].compactMap { name in
            guard let text = readSmallFile("/proc/sys/fs/fuse/\(name)"),
                let seconds = UInt64(String(decoding: text, as: UTF8.self).filter(\.isNumber)), seconds > 0
            else { return nil }
            return .milliseconds(seconds * 500)
        }.min()
    }
}

extension MountConfiguration {
    /// The mount flags that restrict programs in this mount, whatever file system the source is on.
    var forbidden: Set<Submounts.Flag> {
        var flags: Set<Submounts.Flag> = []
        if nosuid || geteuid() != 0 { flags.insert(.nosuid) }
        if nodev || geteuid() != 0 { flags.insert(.nodev) }
        if noexec { flags.insert(.noexec) }
        return flags
    }

    /// The mount options for libfuse and the kernel. Commas and backslashes in names are escaped.
    fileprivate var libraryOptions: String {
        var options = ["subtype=truce", "default_permissions", "fsname=\(sourceName.escapedForLibrary)"]
        if allowOther { options.append("allow_other") }
        if readOnly { options.append("ro") }
        options.append(forbidden.contains(.nosuid) ? "nosuid" : "suid")
        options.append(forbidden.contains(.nodev) ? "nodev" : "dev")
        if noexec { options.append("noexec") }
        return options.joined(separator: ",")
    }
}

extension MountConfiguration {
    /// The options of this mount for the kernel's own mount calls.
    fileprivate var settings: MountSettings {
        var settings = MountSettings(sourceName: sourceName)
        (settings.allowOther, settings.readOnly) = (allowOther, readOnly)
        (settings.nosuid, settings.nodev, settings.noexec) = (nosuid, nodev, noexec)
        return settings
    }
}

extension String {
    fileprivate var escapedForLibrary: String {
        map { $0 == "," || $0 == "\\" ? "\\\($0)" : String($0) }.joined()
    }
}
