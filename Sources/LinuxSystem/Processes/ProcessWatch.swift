// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc
import Synchronization

/// Calls a body when a watched process ends, on a thread of its own.
///
/// A closed connection does not show the end of a client: a child may have inherited the socket and holds it open.
package final class ProcessWatch: Sendable {
    /// A process that the watch observes. After this object is released, the watch no longer calls the body of the process.
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

        /// Whether the process has ended. Until it has ended, the kernel gives its number to no other process.
        package var hasEnded: Bool { OtherProcess.hasExited(process, within: 0) }
    }

    private struct State {
        var next: UInt64 = 1
        var bodies: [UInt64: @Sendable () -> Void] = [:]
    }

    /// The number in epoll of the descriptor that ends the thread.
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

    /// Ends the thread, after which the watch calls no body any more.
    package func stop() {
        var one: UInt64 = 1
        // The write fails only if the counter is full. In that case the thread is about to end already.
        _ = Glibc.write(end.rawValue, &one, 8)
    }

    /// Calls `body` once when the process has ended, on the thread of the watch.
    ///
    /// If the process has ended already, the call follows soon. `process` is the result of ``OtherProcess/watch(_:)``. After
    /// the release of the returned object, the watch begins no call of `body`, but a call in progress goes on.
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
        // The release of the body may call this method again, so the body is released after the lock.
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
