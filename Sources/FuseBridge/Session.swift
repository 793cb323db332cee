// SPDX-License-Identifier: Apache-2.0
import CFuse
import Glibc
package import LinuxSystem
import Synchronization

/// One mounted filesystem, from mount to unmount.
package struct Session: ~Copyable, @unchecked Sendable {
    // @unchecked: both references are set once, and libfuse's session may be used from any thread.
    private let session: OpaquePointer
    private let root: Unmanaged<SessionContext>
    package let connection: Connection
    /// The mount's number, if root made it by descriptors. Nil if libfuse made it, which walks a path and tells nothing.
    package let mount: Int?

    /// Mounts, and lets requests wait in the kernel until ``serve(_:threads:)``.
    ///
    /// `options` are libfuse's, comma separated. Without root's rights `fusermount3` does the mounting. Root mounts over the
    /// open directory `place`, or in place of a `dead` one at the mountpoint; `settings` say what the options say.
    package init(
        at mountpoint: String, over place: consuming OwnedDescriptor?, options: String,
        replacing dead: consuming DeadMountRoot?, with settings: MountSettings,
        wanting features: ConnectionFeatures
    ) throws(Errno) {
        var made: MountRoot?
        let root = Unmanaged.passRetained(SessionContext(Handshake(wanting: features)))
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
            // From here on it is known by its number; an open root would keep it busy.
            if let made = made.take() { mount = made.id } else { mount = nil }
        } catch {
            fuse_session_unmount(session)
            // Of a mount that took another's place libfuse does not know where it is.
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

    /// By root, over a directory that is open. Nil if libfuse has done it, as names that are too long for the kernel's
    /// newer calls need.
    private static func mount(
        _ session: OpaquePointer, over place: borrowing OwnedDescriptor, with settings: MountSettings
    ) throws(Errno) -> MountRoot? {
        guard settings.canMountByDescriptor else {
            // The link leads to what is open.
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
            // There is a moment without either.
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
            // libfuse takes a connection that others have mounted by this name, and closes it.
            try mount(session, at: "/dev/fd/\(device.release())")
        } catch {
            made.discard()
            throw error
        }
        return made
    }

    private static func makeSession(options: String, root: Unmanaged<SessionContext>) -> OpaquePointer? {
        var operations = makeCallbackTable()
        var arguments = ["truce", "-o", options].map { (argument: String) in strdup(argument) }
        defer { for argument in arguments { free(argument) } }
        return arguments.withUnsafeMutableBufferPointer { argv in
            var arguments = fuse_args(argc: CInt(argv.count), argv: argv.baseAddress, allocated: 0)
            defer { fuse_opt_free_args(&arguments) }
            return cfuse_session_new(&arguments, &operations, root.toOpaque())
        }
    }

    /// Tells what was agreed with the kernel when the connection opened; nothing until then.
    package var agreement: @Sendable () -> ConnectionFeatures {
        let handshake = root._withUnsafeGuaranteedRef { $0.handshake }
        return { handshake.agreed }
    }

    /// When the last request came, in nanoseconds of the monotonic clock; 0 before the first.
    package var lastRequest: @Sendable () -> UInt64 {
        let root = root.takeUnretainedValue()
        return { root.lastRequest.load(ordering: .relaxed) }
    }

    /// Serves until the connection ends, which is when the mount is gone everywhere and no file of it is open, or until
    /// `end` says so. Then requests may still come, and whoever made them is told when the process has ended.
    ///
    /// By so many threads, and by more if all of them are kept by the file system below.
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

    // libfuse's session is not destroyed: other threads may still send notifications through it, and the
    // process ends with the mount.
}

/// When a session is served no more.
package final class ServiceShutdown: Sendable {
    private let signal: WakeEvent
    private let threads = Atomic<Int>(0)
    private let isOver = Atomic<Bool>(false)
    /// When it comes though a file system below keeps a thread; 0 as long as there is a connection.
    private let latest = Atomic<UInt64>(0)
    /// How long the threads have when one has seen that the connection is over, in nanoseconds.
    private static let grace: UInt64 = 1_000_000_000

    package init() throws(Errno) { signal = try WakeEvent() }

    /// From any thread.
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

/// What C callbacks find behind their user-data pointer; they cannot be generic, nor capture.
final class SessionContext: @unchecked Sendable {
    // @unchecked: `filesystem` is set once, before the first loop thread reads a request.
    let handshake: Handshake
    let lastRequest = Atomic<UInt64>(0)
    var filesystem: (any Filesystem)!

    init(_ handshake: Handshake) { self.handshake = handshake }
}

@inline(__always)
func withSessionContext(_ userData: UnsafeMutableRawPointer, _ body: (SessionContext) -> Void) {
    Unmanaged<SessionContext>.fromOpaque(userData)._withUnsafeGuaranteedRef(body)
}
