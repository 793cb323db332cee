// SPDX-License-Identifier: Apache-2.0
import CFuse
import Glibc
package import LinuxSystem
import Synchronization

/// One mounted file system, from mount to unmount.
package struct FuseSession: ~Copyable, @unchecked Sendable {
    // @unchecked: both references are set once, and libfuse's session may be used from any thread.
    private let session: OpaquePointer
    private let root: Unmanaged<FuseSessionContext>
    package let connection: Connection
    /// The number of the mount in the mount table. Nil if libfuse has made the mount, because libfuse returns no number.
    package let mount: Int?

    /// Mounts the file system. Requests wait in the kernel until ``serve(_:threads:timers:until:)`` is called.
    ///
    /// - `options` are the options for libfuse, separated by commas. `settings` has the same contents.
    /// - A user's daemon passes neither `place` nor `dead`. `fusermount3` then mounts at the mountpoint.
    /// - Root's daemon mounts over the open directory `place`, or replaces the mount `dead` at the mountpoint.
    package init(
        at mountpoint: String, over place: consuming OwnedDescriptor?, options: String,
        replacing dead: consuming DeadMountRoot?, with settings: MountSettings,
        wanting features: ConnectionFeatures
    ) throws(Errno) {
        var made: MountRoot?
        let root = Unmanaged.passRetained(FuseSessionContext(Handshake(wanting: features)))
        guard let session = Self.makeSession(options: options, root: root) else {
            root.release()
            throw .invalid
        }
        do throws(Errno) {
            if let dead {
                made = try Self.replace(dead, at: mountpoint, or: place.take(), with: settings, for: session)
            } else if let place {
                made = try Self.mount(session, over: place, with: settings)
            } else {
                try Self.mount(session, at: mountpoint)
            }
            var transport = makeTransport()
            let result = cfuse_take_transport(session, &transport)
            guard result == 0 else { throw Errno(rawValue: -result) }
            self.connection = try Connection(of: session)
            // From now on only the number of the mount is stored, and the descriptor of its root is closed. An open descriptor
            // would prevent the unmount.
            if let made = made.take() { mount = made.id } else { mount = nil }
        } catch {
            fuse_session_unmount(session)
            // If the new mount has replaced another mount, libfuse does not know the mountpoint. So the new mount is removed
            // here, and not by libfuse.
            made.take()?.discard()
            fuse_session_destroy(session)
            root.release()
            throw error
        }
        self.session = session
        self.root = root
    }

    private static func mount(_ session: OpaquePointer, at mountpoint: String) throws(Errno) {
        errno = 0
        guard fuse_session_mount(session, mountpoint) == 0 else {
            throw errno == 0 ? Errno.notPermitted : Errno.last
        }
    }

    /// Mounts over an open directory, as root. Returns nil if libfuse has made the mount.
    ///
    /// libfuse makes the mount if the name of the source is too long for the kernel's newer calls.
    private static func mount(
        _ session: OpaquePointer, over place: borrowing OwnedDescriptor, with settings: MountSettings
    ) throws(Errno) -> MountRoot? {
        guard settings.canMountByDescriptor else {
            // The link in `/proc` leads to the open directory, even if its path has changed.
            try mount(session, at: "/proc/self/fd/\(place.rawValue)")
            return nil
        }
        let device = try openDevice()
        let made = try MountRoot(of: settings, on: device)
        try made.attach(over: place)
        return try adopt(made, device, by: session)
    }

    private static func replace(
        _ dead: borrowing DeadMountRoot, at mountpoint: String, or place: consuming OwnedDescriptor?,
        with settings: MountSettings, for session: OpaquePointer
    ) throws(Errno) -> MountRoot? {
        let device = try openDevice()
        let made: MountRoot
        do throws(Errno) {
            made = try dead.replace(with: settings, on: device)
        } catch {
            guard error != .stale else { throw error }
            // Between this call and the next mount, there is no mount at all at the mountpoint.
            try dead.detach()
            if let place { return try mount(session, over: place, with: settings) }
            let place = try OwnedDescriptor.openResolved(Array(mountpoint.utf8))
            return try mount(session, over: place, with: settings)
        }
        return try adopt(made, device, by: session)
    }

    private static func openDevice() throws(Errno) -> OwnedDescriptor {
        OwnedDescriptor(adopting: try retryingOnInterrupt { open("/dev/fuse", O_RDWR | O_CLOEXEC) })
    }

    private static func adopt(
        _ made: consuming MountRoot, _ device: consuming OwnedDescriptor, by session: OpaquePointer
    ) throws(Errno) -> MountRoot {
        do throws(Errno) {
            // If the mountpoint has this form, libfuse takes over a connection that is already mounted. libfuse later closes
            // the descriptor.
            try mount(session, at: "/dev/fd/\(device.release())")
        } catch {
            made.discard()
            throw error
        }
        return made
    }

    private static func makeSession(options: String, root: Unmanaged<FuseSessionContext>) -> OpaquePointer? {
        var operations = makeCallbackTable()
        var arguments = ["truce", "-o", options].map { (argument: String) in strdup(argument) }
        defer { for argument in arguments { free(argument) } }
        return arguments.withUnsafeMutableBufferPointer { argv in
            var arguments = fuse_args(argc: CInt(argv.count), argv: argv.baseAddress, allocated: 0)
            defer { fuse_opt_free_args(&arguments) }
            return cfuse_session_new(&arguments, &operations, root.toOpaque())
        }
    }

    /// The features on which daemon and kernel agreed when the connection opened; empty until then.
    package var agreement: @Sendable () -> ConnectionFeatures {
        let handshake = root._withUnsafeGuaranteedRef { $0.handshake }
        return { handshake.agreed }
    }

    /// The time of the last request, in nanoseconds of the monotonic clock; 0 before the first request.
    package var lastRequest: @Sendable () -> UInt64 {
        let root = root.takeUnretainedValue()
        return { root.lastRequest.load(ordering: .relaxed) }
    }

    /// Serves requests until the connection ends, or until ``ServiceShutdown/trigger()`` is called on `end`.
    ///
    /// The connection ends when the file system is not mounted anywhere any more, and none of its files is open. After a
    /// trigger, programs may still send requests. These programs get an error when the process has ended. `threads` is the
    /// number of threads that serve requests. If the file system below blocks all of them, more threads start.
    package borrowing func serve(
        _ filesystem: any Filesystem, threads: Int, timers: Timers, until end: ServiceShutdown
    ) throws(Errno) {
        root._withUnsafeGuaranteedRef { $0.filesystem = filesystem }
        let loop = RequestLoop(session: session, root: root, polling: try BusyPolling(of: session))
        let start: @Sendable (Int, RequestThreads) throws(Errno) -> Void = {
            (thread, requestThreads) throws(Errno) in
            try JoinableThread {
                let isOver = loop.run(as: thread, in: requestThreads)
                end.threadEnded(withConnection: isOver)
            }.detach()
        }
        let requestThreads = RequestThreads(of: threads, timers: timers) { thread, requestThreads in
            end.expectOneMore()
            do throws(Errno) {
                try start(thread, requestThreads)
                return true
            } catch {
                end.threadEnded(withConnection: false)
                return false
            }
        }
        end.expect(threads)
        for thread in 1...threads { try start(thread, requestThreads) }
        end.wait()
    }

    // libfuse's session is not destroyed, because other threads may still send notifications by it. The process ends soon after
    // the mount, so nothing needs the memory.
}

/// Waits until a session's service ends. The service ends by a trigger, or when the connection ends.
package final class ServiceShutdown: Sendable {
    private let signal: WakeEvent
    private let threads = Atomic<Int>(0)
    private let isOver = Atomic<Bool>(false)
    /// The time at which ``wait()`` returns even if a file system below still blocks threads. 0 while no thread has noticed the
    /// end of the connection.
    private let latest = Atomic<UInt64>(0)
    /// How long ``wait()`` waits for the other threads when one thread has noticed the end of the connection, in nanoseconds.
    private static let grace: UInt64 = 1_000_000_000

    package init() throws(Errno) { signal = try WakeEvent() }

    /// Ends the service. This function may be called from any thread.
    package func trigger() {
        isOver.store(true, ordering: .releasing)
        signal.raise()
    }

    fileprivate func expect(_ count: Int) { threads.store(count, ordering: .relaxed) }
    fileprivate func expectOneMore() { threads.add(1, ordering: .relaxed) }

    fileprivate func threadEnded(withConnection isOver: Bool) {
        if threads.subtract(1, ordering: .acquiringAndReleasing).newValue == 0 { return trigger() }
        guard isOver else { return }
        let moment = MonotonicClock.nanoseconds + Self.grace
        if latest.compareExchange(expected: 0, desired: moment, ordering: .releasing).exchanged {
            signal.raise()
        }
    }

    fileprivate func wait() {
        while !isOver.load(ordering: .acquiring) {
            let latest = latest.load(ordering: .acquiring)
            if latest != 0, latest <= MonotonicClock.nanoseconds { return }
            signal.wait(until: latest == 0 ? nil : latest)
        }
    }
}

/// The values that the C functions of a session need. C functions cannot capture values, so libfuse passes them a pointer to
/// this object.
final class FuseSessionContext: @unchecked Sendable {
    // @unchecked: `filesystem` is set once, before the first loop thread reads a request.
    let handshake: Handshake
    let lastRequest = Atomic<UInt64>(0)
    var filesystem: (any Filesystem)!

    init(_ handshake: Handshake) { self.handshake = handshake }
}

@inline(__always)
func withFuseSessionContext(_ userData: UnsafeMutableRawPointer, _ body: (FuseSessionContext) -> Void) {
    Unmanaged<FuseSessionContext>.fromOpaque(userData)._withUnsafeGuaranteedRef(body)
}
