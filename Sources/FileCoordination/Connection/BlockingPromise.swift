// SPDX-License-Identifier: Apache-2.0
import Foundation
import Synchronization

/// A value that another thread provides once.
final class BlockingPromise<Value: Sendable>: Sendable {
    private let value = Mutex<Value?>(nil)
    private let fulfilled = DispatchSemaphore(value: 0)

    func fulfill(_ value: Value) {
        self.value.withLock { $0 = value }
        fulfilled.signal()
    }

    /// Blocks until the value is there; returns nil after the time limit.
    func wait(seconds: Int) -> Value? {
        fulfilled.wait(timeout: .now() + .seconds(seconds)) == .success ? value.withLock { $0 } : nil
    }

    /// Blocks until the value is there. Use it for one waiter only.
    func wait() -> Value {
        fulfilled.wait()
        guard let value = value.withLock({ $0 }) else {
            preconditionFailure("it is settled before it is told")
        }
        return value
    }
}
