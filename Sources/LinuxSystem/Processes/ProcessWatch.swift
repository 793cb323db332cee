// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc
import Synchronization

/// Tells when processes end, on one thread of its own.
///
/// A socket does not tell: a child may have inherited it, and keeps it open when its parent is long dead.
package final class ProcessWatch: Sendable {
    /// One process that is watched; nobody is told any more once this is let go.
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

        /// Whether it is dead now. As long as it is not, its number is its own.
        package var hasEnded: Bool { OtherProcess.hasExited(process, within: 0) }
    }

    private struct State {
        var next: UInt64 = 1
        var bodies: [UInt64: @Sendable () -> Void] = [:]
    }

    /// The number under which the descriptor that ends the thread is registered.
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

    /// Ends the thread; nobody is told any more.
    package func stop() {
        var one: UInt64 = 1
        // It can only fail with a counter that is full, and then the thread is ending already.
        _ = Glibc.write(end.rawValue, &one, 8)
    }

    /// Calls `body` once when the process is dead, on the thread of the watch; soon if it is dead already.
    ///
    /// `process` is what ``OtherProcess/watch(_:)`` returns. Nobody is told once the result was let go, save by
    /// a call that is under way.
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
        // What goes with the body may come back here, so it goes after the lock.
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
