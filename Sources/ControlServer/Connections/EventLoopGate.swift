// SPDX-License-Identifier: Apache-2.0
import NIOCore
import Synchronization

/// Runs closures of other threads on the event loop of a connection, until the connection ends.
///
/// Closures that are passed after that end are dropped, because the event loop itself has possibly ended.
final class EventLoopGate: Sendable {
    private let loop: any EventLoop
    private let isOpen = Mutex(true)

    init(to loop: any EventLoop) { self.loop = loop }

    /// Queues `body` for the event loop, and returns without waiting for `body`.
    ///
    /// Any thread may call this.
    func run(_ body: @escaping @Sendable () -> Void) {
        isOpen.withLock { isOpen in
            if isOpen { loop.execute(body) }
        }
    }

    func close() { isOpen.withLock { $0 = false } }
}
