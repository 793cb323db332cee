// SPDX-License-Identifier: Apache-2.0
import Foundation

/// The result of work that another thread does.
public final class EventualResult<Value: Sendable>: @unchecked Sendable {
    // @unchecked: `result` is accessed only while `lock` is held; everything else never changes.
    private let what: String
    private let lock = NSLock()
    private let settled = DispatchSemaphore(value: 0)
    private var result: Result<Value, any Error>?

    public init(_ what: String) {
        self.what = what
    }

    public func settle(_ result: Result<Value, any Error>) {
        lock.withLock { self.result = result }
        settled.signal()
    }

    /// Waits for the result. If the time ends before the result comes, throws an error that contains the name of the work.
    public func value(within seconds: Double = 30) throws -> Value {
        guard settled.wait(timeout: .now() + seconds) == .success, let result = lock.withLock({ result })
        else { throw TimeoutError(what: what, seconds: seconds) }
        return try result.get()
    }
}
