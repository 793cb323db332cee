// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem

/// Ends the daemon of a mount that was unmounted in the daemon's mount namespace, but is unused elsewhere.
///
/// After an unmount the mount may still exist:
/// - in another mount namespace that has a copy of the mount, as containers and services make them;
/// - in programs that have files of the mount open or work in its directories.
///
/// As long as the mount exists anywhere, the kernel does not end the connection to the daemon. While programs use the
/// mount, the daemon goes on answering them. When no program uses the mount, the daemon ends. If the daemon stayed for
/// an unused mount, the source could not be mounted a second time.
struct DetachedMountMonitor: Sendable {
    /// The daemon ends only if it has received no request for at least this long.
    private static let quiet = TimeSpan.seconds(1)
    /// The time between two checks whether the mount is used. Each check inspects all processes.
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

    /// Starts a thread that waits until the mount is unmounted in the daemon's mount namespace. Later checks call `end`
    /// when no program uses the mount.
    func prepare(_ end: ServiceShutdown) throws(Errno) {
        let watch = try MountTableMonitor()
        try JoinableThread {
            while isMounted { watch.wait() }
            // Usually the mount exists nowhere else. The kernel then ends the connection within this moment, and no
            // check is needed.
            look(end, after: Self.moment)
        }.detach()
    }

    private var isMounted: Bool {
        do throws(Errno) {
            return try MountTable.current().entry(id: mount.id)?.device == mount.device
        } catch {
            // The mount table cannot be read, so the mount counts as still mounted. The kernel reports the end of the
            // connection in any case.
            return true
        }
    }

    private func look(_ end: ServiceShutdown) {
        // The check runs on a worker thread. On the timers' thread, the check would delay all other deadlines.
        filesystem.context.engine.workers.run { lookAtAll(end) }
    }

    private func lookAtAll(_ end: ServiceShutdown) {
        // The time of the last request is read before the current time. If the current time were read first, a request
        // between the two reads would seem to come from the future.
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
            // Only root sees in which directories other users' processes work. Without `allowOther`, these processes
            // cannot be in the mount.
            return inside.holders.isEmpty
                && (inside.hidden == 0 || !filesystem.context.configuration.allowOther)
        } catch {
            return false
        }
    }
}

extension CoordinatedFilesystem {
    /// Whether no file and no directory of the mount is open, and no request waits.
    fileprivate var isAtRest: Bool {
        tree.handles.isEmpty && directories.listings.isEmpty && coordinator.parkedRequests.isEmpty
    }
}
