// SPDX-License-Identifier: Apache-2.0
import NIOCore
import Synchronization

/// The way back to a connection's event loop for other threads, for as long as the connection is there.
///
/// Whatever comes later is dropped, so that nothing reaches a loop that has ended.
final class EventLoopGate: Sendable {
    private let loop: any EventLoop
    private let isOpen = Mutex(true)

    init(to loop: any EventLoop) { self.loop = loop }

    /// Runs `body` on the loop, soon; from any thread, without blocking.
    func run(_ body: @escaping @Sendable () -> Void) {
        isOpen.withLock { isOpen in
            if isOpen { loop.execute(body) }
        }
    }

    func close() { isOpen.withLock { $0 = false } }
}
