// SPDX-License-Identifier: Apache-2.0
package import Coordination
package import CoordinationEngine
import FuseBridge
import Glibc
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
    /// Whether a dead mount was found at the mount point, which the new mount replaces.
    package var replacesDeadMount = false
    package var sourceName = ""
    /// The path of the control socket for all users of the mount.
    package var socketPath: String?
    /// The path of the control socket for root and the mount's owner; it may be the same path.
    package var ownerSocketPath: String?
    /// The rules about programs, by their names; the first rule that fits decides.
    package var programs: [ProgramRule] = []
    /// The same rules for the status report, with their sources.
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
    /// The mount's entry in the mount table, read after mounting.
    private let entry: MountEntry
    package let engine: Engine

    /// Mounts; requests wait in the kernel until ``serve()``.
    ///
    /// `source` must have been opened before, since the mount may cover it. `log` is called on any thread
    /// with one line at a time.
    package init(
        mirroring source: consuming OwnedDescriptor, at mountpoint: String,
        configuration: MountConfiguration, store: VersionStore?, log: @escaping @Sendable (String) -> Void
    ) throws(MountError) {
        var configuration = configuration
        configuration.bounds.stayBelowRequestTimeout()
        self.configuration = configuration
        self.mountpoint = mountpoint
        let before: MountTable
        do throws(Errno) {
            // Drop the capability before threads start, because they inherit it.
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
                descriptorLimit: Self.descriptorLimit, store: store, agreement: session.agreement)
        } catch {
            Self.takeBack(entry, log)
            throw MountError(message: "cannot serve \(mountpoint): \(error)", errno: error)
        }
    }

    /// Blocks until the mount is gone and unused; see ``DetachedMountMonitor``.
    package func serve() throws(Errno) {
        try DetachedMountMonitor(from: entry, filesystem, lastRequest: session.lastRequest).prepare(end)
        if let rights = filesystem.rightsWatcher {
            try JoinableThread { [filesystem] in rights.run(filesystem.outOfBand) }.detach()
        }
        pruneLater()
        if let watching = SourceWatchThread(filesystem.outOfBand) {
            try JoinableThread { watching.run() }.detach()
        }
        try JoinableThread { [filesystem, mountpoint, engine] in
            SleepInhibitor(filesystem.coordinator.parkedRequests, of: mountpoint, log: engine.log).run()
        }.detach()
        try session.serve(filesystem, threads: Self.loopThreads, timers: engine.timers, until: end)
        // The last handles may have left contents to preserve, and so may handles that are still open.
        filesystem.context.isOver.store(true, ordering: .sequentiallyConsistent)
        endWaits()
        filesystem.closer.preserveAtUnmount()
        let end = Engine.now + Self.longestShutdown
        let areDone = engine.workers.finish(until: end.nanoseconds)
        let areAll = filesystem.context.threads.finish(until: end.nanoseconds) && areDone
        engine.workers.run { [filesystem] in filesystem.preserver.settle() }
        if !engine.workers.finish(until: end.nanoseconds) || !areAll {
            engine.log("ended with work undone after \(Self.longestShutdown)")
        }
    }

    /// Removes versions that have become too old, every ten minutes.
    private func pruneLater() {
        guard filesystem.context.hasStore else { return }
        engine.timers.schedule(at: (Engine.now + Self.prunePause).nanoseconds) { [weak self] in
            guard let self, !filesystem.context.isOver.load(ordering: .relaxed) else { return }
            engine.workers.run { [weak self] in
                self?.filesystem.preserver.prune()
                self?.pruneLater()
            }
        }
    }

    /// Unmounts the mount, at whatever path it is now; callable on any thread.
    ///
    /// Open files stay open. Returns whether the mount is gone, which it may have been before.
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

    /// Ends the waits of all parked requests, and of all requests that would have to wait later.
    package func endWaits() { filesystem.coordinator.parkedRequests.close() }

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
        report.rules = configuration.rules
        return report
    }
}

extension Mount {
    /// Two threads, so that requests go on while one request takes long; no request blocks. See also D81.
    private static let loopThreads = 2
    /// For work that may block: preserving, syncing, copying, and data that the kernel does not move itself.
    private static let workerThreads = 4

    private static let prunePause = TimeSpan.seconds(600)

    /// How long the remaining work may take after the mount is gone: a copy of the largest preserved file.
    private static let longestShutdown = TimeSpan.seconds(30)

    private static let features: ConnectionFeatures = [
        .passthrough, .parallelDirectoryOperations, .privilegeClearing, .posixACL, .unmaskedModes, .recalling,
    ]

    /// More descriptors would save no time, and each keeps an inode below in memory.
    private static let mostDescriptors = 16_384

    /// The limit of descriptors for inodes, open files and listings: half of the process's limit.
    ///
    /// The rest is for descriptors that are open during one request, and for clients of the control socket.
    private static var descriptorLimit: Int {
        min(max(DescriptorLimit.current / 2, 16), mostDescriptors)
    }

    /// The dead mount that the new mount replaces; nil for users, because `fusermount3` cannot replace it.
    ///
    /// A dead mount over another directory than the source came here after the source was found; the mount then fails.
    private static func deadMount(
        at mountpoint: String, hiding source: borrowing OwnedDescriptor, _ configuration: MountConfiguration
    ) throws(Errno) -> DeadMountRoot? {
        guard configuration.replacesDeadMount else { return nil }
        guard let dead = try DeadMountRoot(at: Array(mountpoint.utf8), in: .current()) else { throw .stale }
        if configuration.isInPlace { guard try dead.covers(source) else { throw .stale } }
        return dead
    }

    /// The directory that root mounts over, without a second walk along a path that a user may change.
    ///
    /// Nil for users, and if a dead mount hides the directory.
    private static func place(
        at mountpoint: String, showing source: borrowing OwnedDescriptor, _ configuration: MountConfiguration
    ) throws(Errno) -> OwnedDescriptor? {
        guard geteuid() == 0, MountRoot.isPossible else { return nil }
        if configuration.isInPlace { return try OwnedDescriptor.duplicating(source.rawValue) }
        guard !configuration.replacesDeadMount else { return nil }
        return try OwnedDescriptor.openResolved(Array(mountpoint.utf8))
    }

    /// The entry of the new mount, even if another mount already covers it; that one must not be unmounted as ours.
    ///
    /// If the directory was renamed or became a link meanwhile, the mount is at another path and is unmounted.
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
    /// An administrator may have set the kernel to end connections with requests that take too long.
    fileprivate mutating func stayBelowRequestTimeout() {
        for name in ["max_request_timeout", "default_request_timeout"] {
            guard let text = readSmallFile("/proc/sys/fs/fuse/\(name)"),
                let seconds = UInt64(String(decoding: text, as: UTF8.self).filter(\.isNumber)), seconds > 0
            else { continue }
            // The kernel checks at intervals, so half of the time leaves room.
            wait = min(wait, .milliseconds(seconds * 500))
        }
    }
}

extension MountConfiguration {
    /// The flags that the mount forbids, whatever file system is below.
    var forbidden: Set<Submounts.Flag> {
        var flags: Set<Submounts.Flag> = []
        if nosuid || geteuid() != 0 { flags.insert(.nosuid) }
        if nodev || geteuid() != 0 { flags.insert(.nodev) }
        if noexec { flags.insert(.noexec) }
        return flags
    }

    /// The options for libfuse and the kernel; names with commas are escaped.
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
    /// The same settings for the kernel's own mount calls.
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
