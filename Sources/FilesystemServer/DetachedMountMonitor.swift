// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem

/// Ends the daemon of a mount that was unmounted here but still exists elsewhere.
///
/// It exists:
/// - In another mount namespace with a copy of it, as containers and services make them.
/// - In programs that have its files open or are in its directories.
///
/// The kernel ends the connection only when all of these are gone, which may be never. Programs that use the mount are
/// served. An unused copy must not hold the source, which cannot be mounted again until then.
struct DetachedMountMonitor: Sendable {
    /// How long there must have been no request.
    private static let quiet = TimeSpan.seconds(1)
    /// How often the mount is checked; each check inspects all processes.
    private static let interval = TimeSpan.seconds(1)
    private static let moment = TimeSpan.milliseconds(100)

    private let mount: MountEntry
    private let filesystem: CoordinatedFilesystem
    private let lastRequest: @Sendable () -> UInt64

    init(
        from mount: MountEntry, _ filesystem: CoordinatedFilesystem,
        lastRequest: @escaping @Sendable () -> UInt64
    ) {
        self.mount = mount
        self.filesystem = filesystem
        self.lastRequest = lastRequest
    }

    /// Starts to watch the mount, to end the service.
    func prepare(_ end: ServiceShutdown) throws(Errno) {
        let watch = try MountTableMonitor()
        try JoinableThread {
            while isMounted { watch.wait() }
            // Usually the kernel is about to end the connection.
            look(end, after: Self.moment)
        }.detach()
    }

    private var isMounted: Bool {
        do throws(Errno) {
            return try MountTable.current().entry(id: mount.id)?.device == mount.device
        } catch {
            // The kernel will then report the end.
            return true
        }
    }

    private func look(_ end: ServiceShutdown) {
        // On a worker, because all deadlines share the timers' thread.
        filesystem.context.engine.workers.run { lookAtAll(end) }
    }

    private func lookAtAll(_ end: ServiceShutdown) {
        // Read the last request before the current time, because requests may arrive meanwhile.
        let last = Instant(nanoseconds: lastRequest())
        if Engine.now.since(last) >= Self.quiet, filesystem.isAtRest, isEmpty {
            filesystem.context.engine.log(
                "unmounted here and unused: the daemon ends, though another mount namespace has a copy of the mount"
            )
            return end.trigger()
        }
        look(end, after: Self.interval)
    }

    private func look(_ end: ServiceShutdown, after time: TimeSpan) {
        filesystem.context.engine.timers.schedule(at: (Engine.now + time).nanoseconds) { look(end) }
    }

    private var isEmpty: Bool {
        do throws(Errno) {
            let inside = try MountHolders.ProcessHolders(mount.device)
            // A user cannot see the directories of other users' processes. Without `allowOther` those cannot be in the
            // mount.
            return inside.holders.isEmpty
                && (inside.hidden == 0 || !filesystem.context.configuration.allowOther)
        } catch {
            return false
        }
    }
}

extension CoordinatedFilesystem {
    /// Whether no file or directory is open and no request is parked.
    fileprivate var isAtRest: Bool {
        tree.handles.isEmpty && directories.listings.isEmpty && coordinator.parkedRequests.isEmpty
    }
}
