// SPDX-License-Identifier: Apache-2.0
import NIOCore
import Synchronization

/// Runs closures of other threads on a connection's event loop, until the connection ends.
///
/// Later closures are dropped, because the loop may have ended.
final class EventLoopGate: Sendable {
    private let loop: any EventLoop
    private let isOpen = Mutex(true)

    init(to loop: any EventLoop) { self.loop = loop }

    /// Runs `body` on the loop soon.
    ///
    /// Any thread may call; the call does not block.
    func run(_ body: @escaping @Sendable () -> Void) {
        isOpen.withLock { isOpen in
            if isOpen { loop.execute(body) }
        }
    }

    func close() { isOpen.withLock { $0 = false } }
}
