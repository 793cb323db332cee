// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import Synchronization

/// A limit on the number of items, presenters or the like that a guest uses on all its connections together.
final class GuestQuota: Sendable {
    private let counts = Mutex<[UInt32: Int]>([:])
    private let limit: Int

    init(limit: Int) { self.limit = limit }

    /// Adds `count` to the number of a user, unless the sum exceeds the limit. Returns whether it was added.
    func take(_ count: Int, of user: UInt32) -> Bool {
        counts.withLock { counts in
            let sum = counts[user, default: 0] + count
            guard sum <= limit else { return false }
            counts[user] = sum
            return true
        }
    }

    func release(_ count: Int, of user: UInt32) {
        counts.withLock { counts in
            let left = counts[user, default: 0] - count
            counts[user] = left > 0 ? left : nil
        }
    }
}

/// Limits the number of log lines about connections of guests.
final class GuestLogLimiter: Sendable {
    private let log = Mutex(LogRateLimiter(lines: 1))

    /// Returns the text that a log line about a user's connection must end with. Returns nil if there were too many lines; the
    /// line must not be written in this case.
    func note(_ user: UInt32) -> String? { log.withLock { $0.note(user, at: Engine.now) } }
}
