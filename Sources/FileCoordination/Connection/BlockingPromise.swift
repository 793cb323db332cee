// SPDX-License-Identifier: Apache-2.0
import Foundation
import Synchronization

/// A value that one thread sets once, and for which another thread waits.
final class BlockingPromise<Value: Sendable>: Sendable {
    private let value = Mutex<Value?>(nil)
    private let fulfilled = DispatchSemaphore(value: 0)

    func fulfill(_ value: Value) {
        self.value.withLock { $0 = value }
        fulfilled.signal()
    }

    /// Waits until the value is set. Returns nil if it is not set within this number of seconds.
    func wait(seconds: Int) -> Value? {
        fulfilled.wait(timeout: .now() + .seconds(seconds)) == .success ? value.withLock { $0 } : nil
    }

    /// Waits until the value is set. Only one thread may call this, and only once.
    func wait() -> Value {
        fulfilled.wait()
        guard let value = value.withLock({ $0 }) else {
            preconditionFailure("it is settled before it is told")
        }
        return value
    }
}
