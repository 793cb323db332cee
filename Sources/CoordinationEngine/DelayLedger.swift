// SPDX-License-Identifier: Apache-2.0
package import Coordination
import Synchronization

/// How long guests have made other users wait, and which presenters of theirs do not answer.
///
/// A guest is a user who is neither root nor the mount's owner. Whoever may read a file may keep its writers waiting, and whoever may
/// write it may show it and answer late: so one user could delay another for ever, with one file after the other. Of all that a guest
/// makes another user wait in an hour, so much is waited as `guestDelay` says; then the guest's programs have a moment each.
package final class DelayLedger: Sendable {
    package static let period = Span.seconds(3600)
    /// Pairs of users that are remembered; beyond that those with the least delays are forgotten.
    package static let most = 1024
    /// The user of a program that is not known.
    private static let unknown = UInt32.max

    package struct Account: Hashable, Sendable {
        /// The user that makes another one wait.
        package let guest: UInt32
        /// The user that is made to wait.
        package let delayed: UInt32

        package init(of guest: UInt32, delaying delayed: UInt32) {
            (self.guest, self.delayed) = (guest, delayed)
        }
    }

    fileprivate struct Entry {
        let began: Instant
        var spent = Span.zero
        /// Two delays at once are one.
        var counted: Instant

        func isOver(at now: Instant) -> Bool { now >= began + DelayLedger.period }
    }

    fileprivate struct State {
        var entries: [Account: Entry] = [:]
        /// Of all presenters of a guest.
        var silences: [UInt32: Silence] = [:]
        var lines = LineLimit(lines: 1)
    }

    private let owner: UInt32?
    private let allowance: Span
    private let state = Mutex(State())

    /// `owner` is nil for a mount that has no guests.
    package init(allowing allowance: Span, besides owner: UInt32?) {
        self.owner = owner
        self.allowance = allowance
    }

    /// Whether there may be any.
    var hasGuests: Bool { owner != nil }

    package func isGuest(_ user: UInt32?) -> Bool {
        guard let owner, let user else { return false }
        return user != 0 && user != owner
    }

    /// Nil if the one is no guest, or is not somebody else.
    package func account(of guest: UInt32?, delaying delayed: UInt32?) -> Account? {
        guard isGuest(guest), let guest, guest != delayed else { return nil }
        return Account(of: guest, delaying: delayed ?? Self.unknown)
    }

    /// One is made to wait for the other from a moment to another. What was counted until then is not counted again.
    package func charge(_ account: Account, from begin: Instant, to end: Instant) {
        state.withLock { state in
            var entry = state.entries[account]
            if entry?.isOver(at: end) ?? true {
                if entry == nil { state.makeRoom(at: end) }
                entry = Entry(began: begin, counted: begin)
            }
            guard var entry else { return }
            let fresh = end.since(max(begin, entry.counted))
            entry.spent = Span(nanoseconds: entry.spent.nanoseconds + fresh.nanoseconds)
            entry.counted = max(entry.counted, end)
            state.entries[account] = entry
        }
    }

    package func isSpent(_ account: Account, at now: Instant) -> Bool {
        state.withLock { state in
            guard let entry = state.entries[account], !entry.isOver(at: now) else { return false }
            return entry.spent >= allowance
        }
    }

    /// What to add to a line of the log about a guest whose time is used up; nil if there is to be none.
    func noteLine(about guest: UInt32, at now: Instant) -> String? {
        state.withLock { $0.lines.note(guest, at: now) }
    }
}

extension DelayLedger.State {
    fileprivate mutating func makeRoom(at now: Instant) {
        guard entries.count >= DelayLedger.most else { return }
        entries = entries.filter { !$0.value.isOver(at: now) }
        guard entries.count >= DelayLedger.most else { return }
        if let least = entries.min(by: { $0.value.spent < $1.value.spent }) { entries[least.key] = nil }
    }
}

/// Requests in a row that were not answered in time.
///
/// After three whoever owes the answers is given a moment for each, until one comes in time or ten minutes are over: what is slow, and
/// not silent, would otherwise never again have the time that it takes.
struct Silence: Sendable {
    private static let most = 3
    private static let length = Span.seconds(600)
    private var count = 0
    private var last = Instant(nanoseconds: 0)

    func isLong(at now: Instant) -> Bool { count >= Self.most && now < last + Self.length }

    /// Returns whether it is long from now on. What had a moment only says nothing.
    mutating func note(at now: Instant) -> Bool {
        if isLong(at: now) { return false }
        count = now < last + Self.length ? count + 1 : 1
        last = now
        return isLong(at: now)
    }
}

// Connections and users that do not answer.
extension DelayLedger {
    /// Returns whether the guest's programs have a moment only from now on.
    func noteSilence(of guest: UInt32, at now: Instant) -> Bool {
        state.withLock { state in
            if state.silences[guest] == nil, state.silences.count >= Self.most { state.silences = [:] }
            return state.silences[guest, default: Silence()].note(at: now)
        }
    }

    func noteAnswer(of guest: UInt32) { state.withLock { $0.silences[guest] = nil } }

    func isSilent(_ guest: UInt32, at now: Instant) -> Bool {
        state.withLock { $0.silences[guest]?.isLong(at: now) ?? false }
    }
}

/// What a guest has made another user wait in the hour that goes on.
package struct DelayReport: Hashable, Sendable {
    package var guest: UInt32
    /// Nil for programs that are not known.
    package var delayed: UInt32?
    package var spent: Span
    package var allowed: Span
    /// When it may begin anew.
    package var end: Instant

    package init(guest: UInt32, delayed: UInt32?, spent: Span, allowed: Span, end: Instant) {
        (self.guest, self.delayed, self.spent, self.allowed, self.end) = (guest, delayed, spent, allowed, end)
    }
}

extension DelayLedger {
    /// So many are told of, those with the longest delays.
    private static let told = 100

    func reports(at now: Instant) -> [DelayReport] {
        let entries = state.withLock { $0.entries.filter { !$0.value.isOver(at: now) } }
        let reports = entries.map { account, entry in
            DelayReport(
                guest: account.guest, delayed: account.delayed == Self.unknown ? nil : account.delayed,
                spent: entry.spent, allowed: allowance, end: entry.began + Self.period)
        }
        return Array(
            reports.sorted { ($1.spent, $0.guest, $0.delayed ?? 0) < ($0.spent, $1.guest, $1.delayed ?? 0) }
                .prefix(Self.told))
    }
}
