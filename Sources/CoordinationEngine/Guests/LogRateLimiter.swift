// SPDX-License-Identifier: Apache-2.0
package import Coordination
import Synchronization

/// Limits the number of log lines about each user, for events that a user can cause as often as it wants.
package struct LogRateLimiter: Sendable {
    private struct Noted {
        var since: Instant
        var lines = 1
        var more = 0
    }

    private static let interval = TimeSpan.seconds(60)
    /// The number of users that are stored. Lines about further users are not written.
    private static let users = 64

    private let most: Int
    private var noted: [UInt32: Noted] = [:]

    /// Allows `lines` log lines for each user in a minute.
    package init(lines: Int) { most = lines }

    /// Returns the suffix of a log line about a user; nil if the line must not be written.
    package mutating func note(_ user: UInt32, at now: Instant) -> String? {
        if let last = noted[user], now.since(last.since) < Self.interval {
            if last.lines < most {
                noted[user]?.lines += 1
                return ""
            }
            noted[user]?.more += 1
            return nil
        }
        let more = noted[user]?.more ?? 0
        if noted[user] == nil, noted.count >= Self.users {
            noted = noted.filter { now.since($0.value.since) < Self.interval }
            guard noted.count < Self.users else { return nil }
        }
        noted[user] = Noted(since: now)
        return more > 0 ? " (and \(more) times before, unnoted)" : ""
    }
}

/// A ``LogRateLimiter`` that several threads can use at the same time.
package final class SharedLogRateLimiter: Sendable {
    private let limiter: Mutex<LogRateLimiter>

    package init(lines: Int) { limiter = Mutex(LogRateLimiter(lines: lines)) }

    package func note(_ user: UInt32, at now: Instant) -> String? {
        limiter.withLock { $0.note(user, at: now) }
    }
}
