// SPDX-License-Identifier: Apache-2.0
package import Coordination
import Synchronization

/// How long guests have made other users wait, and which presenters of theirs do not answer.
///
/// A guest is a user who is neither root nor the mount's owner. Whoever may read a file may keep its writers waiting, and whoever may
/// write it may show it and answer late: so one user could delay another for ever, with one file after the other. Of all that a guest
/// makes another user wait in an hour, so much is waited as `guestDelay` says; then the guest's programs have a moment each.
package final class DelayLedger: Sendable {
    package static let period = TimeSpan.seconds(3600)
    /// Pairs of users that are remembered; beyond that those with the least delays are forgotten.
    package static let most = 1024
    /// A user may have very many user numbers: so all guests together may make another user wait so many times as long as one.
    package static let guestsTogether: UInt64 = 4
    /// The user of a program that is not known.
    fileprivate static let unknown = UInt32.max

    package struct Account: Hashable, Sendable {
        /// The user that makes another one wait.
        package let guest: UInt32
        /// The user that is made to wait.
        package let delayed: UInt32
        /// The same; nil if it is not known.
        var user: UInt32? { delayed == DelayLedger.unknown ? nil : delayed }

        package init(of guest: UInt32, delaying delayed: UInt32) {
            (self.guest, self.delayed) = (guest, delayed)
        }
    }

    fileprivate struct Entry {
        let began: Instant
        var spent = TimeSpan.zero
        /// Two delays at once are one.
        var chargedUntil: Instant

        init(began: Instant) { (self.began, chargedUntil) = (began, began) }

        func isOver(at now: Instant) -> Bool { now >= began + DelayLedger.period }

        mutating func charge(from begin: Instant, to end: Instant) {
            if isOver(at: end) { self = Entry(began: begin) }
            let fresh = end.since(max(begin, chargedUntil))
            spent = TimeSpan(nanoseconds: spent.nanoseconds + fresh.nanoseconds)
            chargedUntil = max(chargedUntil, end)
        }
    }

    fileprivate struct State {
        var entries: [Account: Entry] = [:]
        /// By the user that is made to wait: what all guests do to it.
        var sums: [UInt32: Entry] = [:]
        /// Of all presenters of a guest.
        var silences: [UInt32: UnansweredStreak] = [:]
        var lines = LogRateLimiter(lines: 1)
    }

    private let owner: UInt32?
    private let allowance: TimeSpan
    private let state = Mutex(State())

    /// `owner` is nil for a mount that has no guests.
    package init(allowing allowance: TimeSpan, besides owner: UInt32?) {
        self.owner = owner
        self.allowance = allowance
    }

    /// Whether there may be any.
    var hasGuests: Bool { owner != nil }

    package func isGuest(_ user: UInt32?) -> Bool {
        guard let owner, let user else { return false }
        return user != 0 && user != owner
    }

    private var allowanceOfAll: TimeSpan {
        TimeSpan(nanoseconds: Self.guestsTogether * allowance.nanoseconds)
    }

    /// Nil if the one is no guest, or is not somebody else.
    package func account(of guest: UInt32?, delaying delayed: UInt32?) -> Account? {
        guard isGuest(guest), let guest, guest != delayed else { return nil }
        return Account(of: guest, delaying: delayed ?? Self.unknown)
    }

    /// One is made to wait for the other from a moment to another. What was counted until then is not counted again.
    package func charge(_ account: Account, from begin: Instant, to end: Instant) {
        state.withLock { state in
            if state.entries[account] == nil { State.makeRoom(in: &state.entries, at: end) }
            state.entries[account, default: Entry(began: begin)].charge(from: begin, to: end)
            if state.sums[account.delayed] == nil {
                // Root's, the owner's and that of unknown programs stay: small ones of guests could push them out.
                State.makeRoom(in: &state.sums, at: end) { isGuest($0) && $0 != Self.unknown }
            }
            state.sums[account.delayed, default: Entry(began: begin)].charge(from: begin, to: end)
        }
    }

    package func isSpent(_ account: Account, at now: Instant) -> Bool {
        state.withLock { state in
            let isSpent = { (entry: Entry?, allowance: TimeSpan) in
                entry.map { !$0.isOver(at: now) && $0.spent >= allowance } ?? false
            }
            return isSpent(state.entries[account], allowance)
                || isSpent(state.sums[account.delayed], allowanceOfAll)
        }
    }

    /// What to add to a line of the log about a guest whose time is used up; nil if there is to be none.
    func admitLogLine(about guest: UInt32, at now: Instant) -> String? {
        state.withLock { $0.lines.note(guest, at: now) }
    }
}

extension DelayLedger.State {
    fileprivate static func makeRoom<Key>(
        in entries: inout [Key: DelayLedger.Entry], at now: Instant,
        where mayGo: (Key) -> Bool = { _ in true }
    ) {
        guard entries.count >= DelayLedger.most else { return }
        entries = entries.filter { !$0.value.isOver(at: now) }
        guard entries.count >= DelayLedger.most else { return }
        let least = entries.filter { mayGo($0.key) }.min { $0.value.spent < $1.value.spent }
        if let least { entries[least.key] = nil }
    }
}

/// Requests in a row that were not answered in time.
///
/// After three whoever owes the answers is given a moment for each, until one comes in time or ten minutes are over: what is slow, and
/// not silent, would otherwise never again have the time that it takes.
struct UnansweredStreak: Sendable {
    private static let most = 3
    private static let length = TimeSpan.seconds(600)
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
            return state.silences[guest, default: UnansweredStreak()].note(at: now)
        }
    }

    func noteAnswer(of guest: UInt32) { state.withLock { $0.silences[guest] = nil } }

    func isSilent(_ guest: UInt32, at now: Instant) -> Bool {
        state.withLock { $0.silences[guest]?.isLong(at: now) ?? false }
    }
}

/// What a guest has made another user wait in the hour that goes on.
package struct DelayReport: Hashable, Sendable {
    /// Nil for all guests together.
    package var guest: UInt32?
    /// Nil for programs that are not known.
    package var delayed: UInt32?
    package var spent: TimeSpan
    package var allowed: TimeSpan
    /// When it may begin anew.
    package var end: Instant

    package init(guest: UInt32?, delayed: UInt32?, spent: TimeSpan, allowed: TimeSpan, end: Instant) {
        (self.guest, self.delayed, self.spent, self.allowed, self.end) = (guest, delayed, spent, allowed, end)
    }
}

extension DelayLedger {
    /// So many are told of, those with the longest delays.
    private static let told = 100

    package func reports(at now: Instant) -> [DelayReport] {
        let entries = state.withLock { $0.entries }
        return Self.longest(
            entries.compactMap { report($1, of: $0.guest, delaying: $0.user, allowance, at: now) })
    }

    /// Of all guests together, where that is more than one may: else it tells nothing new.
    package func sums(at now: Instant) -> [DelayReport] {
        let sums = state.withLock { $0.sums }.filter { $0.value.spent > allowance }
        return Self.longest(
            sums.compactMap { delayed, entry in
                let user = Account(of: 0, delaying: delayed).user
                return report(entry, of: nil, delaying: user, allowanceOfAll, at: now)
            })
    }

    /// What some users have made others of them wait.
    func reports(among users: Set<UInt32>, at now: Instant) -> [DelayReport] {
        let accounts = state.withLock {
            $0.entries.keys.filter { users.contains($0.guest) && users.contains($0.delayed) }
        }
        return Self.longest(Array(Set(accounts.flatMap { reports(of: $0, at: now) })))
    }

    /// What concerns an account: its own, and that of all guests if there is more in it.
    func reports(of account: Account, at now: Instant) -> [DelayReport] {
        let (entry, sum) = state.withLock { ($0.entries[account], $0.sums[account.delayed]) }
        let own = entry.flatMap { report($0, of: account.guest, delaying: account.user, allowance, at: now) }
        let all = sum.flatMap { report($0, of: nil, delaying: account.user, allowanceOfAll, at: now) }
        return [own, all.flatMap { $0.spent >= $0.allowed ? $0 : nil }].compactMap { $0 }
    }

    private func report(
        _ entry: Entry, of guest: UInt32?, delaying user: UInt32?, _ allowed: TimeSpan, at now: Instant
    ) -> DelayReport? {
        if entry.isOver(at: now) { return nil }
        return DelayReport(
            guest: guest, delayed: user, spent: entry.spent, allowed: allowed, end: entry.began + Self.period)
    }

    private static func longest(_ reports: [DelayReport]) -> [DelayReport] {
        let sorted = reports.sorted {
            ($1.spent, $0.guest ?? 0, $0.delayed ?? 0) < ($0.spent, $1.guest ?? 0, $1.delayed ?? 0)
        }
        return Array(sorted.prefix(told))
    }
}
