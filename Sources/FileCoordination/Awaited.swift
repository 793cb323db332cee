// SPDX-License-Identifier: Apache-2.0
import Foundation
import Synchronization

/// Something that another thread brings about, once.
final class Awaited<Value: Sendable>: Sendable {
    private let value = Mutex<Value?>(nil)
    private let settled = DispatchSemaphore(value: 0)

    func settle(_ value: Value) {
        self.value.withLock { $0 = value }
        settled.signal()
    }

    /// Nil if it takes longer.
    func wait(seconds: Int) -> Value? {
        settled.wait(timeout: .now() + .seconds(seconds)) == .success ? value.withLock { $0 } : nil
    }

    /// Blocks; for one who waits.
    func wait() -> Value {
        settled.wait()
        guard let value = value.withLock({ $0 }) else {
            preconditionFailure("it is settled before it is told")
        }
        return value
    }
}
