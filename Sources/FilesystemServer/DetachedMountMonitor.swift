// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem

/// The end of a mount that was taken away here, but that others keep: another mount namespace that has a copy of it, as
/// containers and services make them, or programs that have files of it open or are in its directories.
///
/// The kernel ends the connection only when all of them are gone, which may be never. Whoever uses it is served as long
/// as they do; a copy that nobody uses is no reason to hold the source, which cannot be mounted again until then.
struct DetachedMountMonitor: Sendable {
    /// How long nobody may have asked for anything.
    private static let quiet = TimeSpan.seconds(1)
    /// How often that is looked at; looking takes a look at each process.
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

    /// Sees to it that the service ends.
    func prepare(_ end: ServiceShutdown) throws(Errno) {
        let watch = try MountTableMonitor()
        try JoinableThread {
            while isMounted { watch.wait() }
            // As a rule the kernel is about to end the connection.
            look(end, after: Self.moment)
        }.detach()
    }

    private var isMounted: Bool {
        do throws(Errno) {
            return try MountTable.current().entry(id: mount.id)?.device == mount.device
        } catch {
            // Then the kernel has to say it.
            return true
        }
    }

    private func look(_ end: ServiceShutdown) {
        // On a worker: the timers' thread is everybody's.
        filesystem.engine.workers.run { lookAtAll(end) }
    }

    private func lookAtAll(_ end: ServiceShutdown) {
        // Requests come meanwhile: the last of them may be younger than a moment that was looked at first.
        let last = Instant(nanoseconds: lastRequest())
        if Engine.now.since(last) >= Self.quiet, filesystem.isAtRest, isEmpty {
            filesystem.engine.log(
                "unmounted here and used by nobody: the daemon ends, though the mount is kept elsewhere")
            return end.trigger()
        }
        look(end, after: Self.interval)
    }

    private func look(_ end: ServiceShutdown, after time: TimeSpan) {
        filesystem.engine.timers.schedule(at: (Engine.now + time).nanoseconds) { look(end) }
    }

    private var isEmpty: Bool {
        do throws(Errno) {
            let inside = try MountHolders.ProcessHolders(mount.device)
            // A user cannot see who of the others is in a directory; where they may not enter, nobody is.
            return inside.holders.isEmpty && (inside.hidden == 0 || !filesystem.configuration.allowOther)
        } catch {
            return false
        }
    }
}

extension CoordinatedFilesystem {
    /// Whether no file or directory is open, and nobody waits for one.
    fileprivate var isAtRest: Bool { handles.isEmpty && listings.isEmpty && parkedRequests.isEmpty }
}
