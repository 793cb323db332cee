// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc
import Synchronization

/// Calls a body when a watched process ends, on a separate thread.
///
/// The connection of a client does not always end with the client: a child of the client can have inherited the socket.
package final class ProcessWatch: Sendable {
    /// A process that is being watched. After the release of this object, the body for the process is not called any more.
    package final class WatchedProcess: Sendable {
        private let process: OwnedDescriptor
        private let number: UInt64
        private let watch: ProcessWatch

        fileprivate init(_ process: consuming OwnedDescriptor, _ number: UInt64, by watch: ProcessWatch) {
            self.process = process
            self.number = number
            self.watch = watch
        }

        deinit { watch.forget(number, process.rawValue) }

        /// Whether the process has ended. Before its end, the kernel gives its number to no other process.
        package var hasEnded: Bool { OtherProcess.hasExited(process, within: 0) }
    }

    private struct State {
        var next: UInt64 = 1
        var bodies: [UInt64: @Sendable () -> Void] = [:]
    }

    /// The number in epoll for the descriptor that tells the thread to end.
    private static let ending: UInt64 = 0

    private let state = Mutex(State())
    private let epoll: OwnedDescriptor
    private let end: OwnedDescriptor

    package init() throws(Errno) {
        epoll = OwnedDescriptor(
            adopting: try retryingOnInterrupt { clinux_epoll() })
        let event = clinux_event(0)
        guard event >= 0 else { throw .last }
        end = OwnedDescriptor(adopting: event)
        try add(end.rawValue, as: Self.ending)
        try JoinableThread { [self] in run() }.detach()
    }

    /// Ends the thread. After that, no body is called any more.
    package func stop() {
        var one: UInt64 = 1
        // The write fails only if the counter is full. This means that the thread has been told to end already.
        _ = Glibc.write(end.rawValue, &one, 8)
    }

    /// Calls `body` once when the process has ended, on the thread of the watch.
    ///
    /// If the process has ended already, `body` is called soon. `process` is the result of ``OtherProcess/watch(_:)``. After
    /// the release of the returned object, no call of `body` begins, but a call that is in progress continues.
    package func watch(
        _ process: consuming OwnedDescriptor, whenDead body: @escaping @Sendable () -> Void
    ) throws(Errno) -> WatchedProcess {
        let number = state.withLock { state in
            let number = state.next
            state.next += 1
            state.bodies[number] = body
            return number
        }
        do throws(Errno) {
            try add(process.rawValue, as: number)
        } catch {
            state.withLock { _ = $0.bodies.removeValue(forKey: number) }
            throw error
        }
        return WatchedProcess(process, number, by: self)
    }

    private func add(_ descriptor: CInt, as number: UInt64) throws(Errno) {
        guard clinux_epoll_add(epoll.rawValue, descriptor, number) == 0 else { throw .last }
    }

    private func forget(_ number: UInt64, _ descriptor: CInt) {
        // The release of the body can call this method again, which takes the lock. So the body is released after the lock is
        // released.
        let body = state.withLock { $0.bodies.removeValue(forKey: number) }
        withExtendedLifetime(body) {}
        _ = clinux_epoll_remove(epoll.rawValue, descriptor)
    }

    private func run() {
        while true {
            var number = Self.ending
            guard clinux_epoll_wait(epoll.rawValue, &number) == 1 else { continue }
            if number == Self.ending { return }
            let body = state.withLock { $0.bodies.removeValue(forKey: number) }
            body?()
        }
    }
}
