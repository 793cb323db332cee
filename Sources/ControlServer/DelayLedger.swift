// SPDX-License-Identifier: Apache-2.0
package import Coordination
import Synchronization

/// How long guests have made others wait for their answers.
///
/// Whoever may write a file may show it, and is asked before others use it; so one user could keep all others from
/// it by answering late, for ever. An hour's answers about one item may take a minute; then it is not asked any more
/// until the hour is over.
package final class DelayLedger: Sendable {
    package static let allowance = Span.seconds(60)
    package static let period = Span.seconds(3600)
    /// How many items of one user's are remembered: those about which it took longest.
    package static let most = 256

    package struct Account: Hashable, Sendable {
        let user: UInt32
        let item: ItemID

        package init(user: UInt32, item: ItemID) { (self.user, self.item) = (user, item) }
    }

    private struct Entry {
        let began: Instant
        var spent: Span
    }

    private let entries = Mutex<[Account: Entry]>([:])

    package init() {}

    package func isSpent(_ account: Account, at now: Instant) -> Bool {
        entries.withLock { entries in
            guard let entry = entries[account], now < entry.began + Self.period else { return false }
            return entry.spent >= Self.allowance
        }
    }

    /// What an answer took, or may take before it is not waited for any more.
    package func charge(_ account: Account, _ span: Span, at now: Instant) {
        entries.withLock { entries in
            if entries[account] == nil { Self.makeRoom(for: account.user, in: &entries) }
            var entry = entries[account] ?? Entry(began: now, spent: .zero)
            if now >= entry.began + Self.period { entry = Entry(began: now, spent: .zero) }
            entry.spent = Span(nanoseconds: entry.spent.nanoseconds + span.nanoseconds)
            entries[account] = entry
        }
    }

    private static func makeRoom(for user: UInt32, in entries: inout [Account: Entry]) {
        var (count, least): (Int, (key: Account, value: Entry)?) = (0, nil)
        for entry in entries where entry.key.user == user {
            count += 1
            if least.map({ entry.value.spent < $0.value.spent }) ?? true { least = entry }
        }
        if count >= most, let least { entries[least.key] = nil }
    }

    /// What was charged and not needed.
    package func refund(_ account: Account, _ span: Span) {
        entries.withLock { entries in
            guard var entry = entries[account] else { return }
            let rest = entry.spent.nanoseconds
            entry.spent = Span(nanoseconds: rest - min(span.nanoseconds, rest))
            entries[account] = entry
        }
    }
}
