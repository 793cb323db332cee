// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import Synchronization

/// How much the connections of each guest have of what costs others, together.
final class GuestQuota: Sendable {
    private let counts = Mutex<[UInt32: Int]>([:])
    private let limit: Int

    init(limit: Int) { self.limit = limit }

    /// Takes room for so many more, if there is as much.
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

/// Keeps guests from filling the log with what is said of their connections.
final class GuestLogLimiter: Sendable {
    private let log = Mutex(LogRateLimiter(lines: 1))

    /// What to add to a line about one of a user's connections; nil if there is to be none.
    func note(_ user: UInt32) -> String? { log.withLock { $0.note(user, at: Engine.now) } }
}
