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
    /// How many items of one user's are remembered: those about which it took longest. The others count as one, lest an
    /// item be forgotten among many that nobody waited for.
    package static let most = 256

    package struct Account: Hashable, Sendable {
        let user: UInt32
        let item: ItemID

        package init(user: UInt32, item: ItemID) { (self.user, self.item) = (user, item) }
    }

    private struct Entry {
        let began: Instant
        /// What counts as spent, and is counted among the others of its user already.
        var before = Span.zero
        var spent = Span.zero

        func isOver(at now: Instant) -> Bool { now >= began + DelayLedger.period }
        var all: Span { Span(nanoseconds: before.nanoseconds + spent.nanoseconds) }
        mutating func add(_ span: Span) { spent = Span(nanoseconds: spent.nanoseconds + span.nanoseconds) }
    }

    private struct State {
        var entries: [Account: Entry] = [:]
        /// For each user, all that was spent on items that are not remembered.
        var others: [UInt32: Entry] = [:]

        /// What counts for an item. Whoever is remembered anew may have been forgotten before, and begins with what was spent
        /// then.
        func entry(of account: Account, at now: Instant) -> Entry {
            if let entry = entries[account] { return entry.isOver(at: now) ? Entry(began: now) : entry }
            guard let rest = others[account.user], !rest.isOver(at: now) else { return Entry(began: now) }
            return Entry(began: rest.began, before: rest.spent)
        }

        mutating func makeRoom(for user: UInt32, at now: Instant) {
            var (count, least): (Int, (key: Account, value: Entry)?) = (0, nil)
            for entry in entries where entry.key.user == user {
                count += 1
                if least.map({ entry.value.spent < $0.value.spent }) ?? true { least = entry }
            }
            guard count >= DelayLedger.most, let least else { return }
            entries[least.key] = nil
            guard !least.value.isOver(at: now) else { return }
            var rest = others[user] ?? Entry(began: least.value.began)
            if rest.isOver(at: now) { rest = Entry(began: least.value.began) }
            rest.add(least.value.spent)
            others[user] = rest
        }
    }

    private let state = Mutex(State())

    package init() {}

    package func isSpent(_ account: Account, at now: Instant) -> Bool {
        state.withLock { $0.entry(of: account, at: now).all >= Self.allowance }
    }

    /// What an answer took, or may take before it is not waited for any more.
    package func charge(_ account: Account, _ span: Span, at now: Instant) {
        state.withLock { state in
            var entry = state.entry(of: account, at: now)
            if state.entries[account] == nil { state.makeRoom(for: account.user, at: now) }
            entry.add(span)
            state.entries[account] = entry
        }
    }

    /// What was charged and not needed.
    package func refund(_ account: Account, _ span: Span) {
        state.withLock { state in
            guard var entry = state.entries[account] else { return }
            let rest = entry.spent.nanoseconds
            entry.spent = Span(nanoseconds: rest - min(span.nanoseconds, rest))
            state.entries[account] = entry
        }
    }
}
