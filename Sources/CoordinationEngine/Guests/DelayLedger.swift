// SPDX-License-Identifier: Apache-2.0
package import Coordination
import Synchronization

/// Counts how long guests have made other users wait, and which guests do not answer.
///
/// A guest is a user that is neither root nor the mount's owner. A user that may read a file can delay its writers. A
/// user that may write a file can present it and answer late. So a user could delay another for ever, with one file
/// after the other. In one hour, others wait for a guest no longer than `guestDelay`. After that they wait for each
/// of its programs only a moment.
package final class DelayLedger: Sendable {
    package static let period = TimeSpan.seconds(3600)
    /// The number of pairs of users that are remembered; beyond that the pair with the least delay is removed.
    package static let most = 1024
    /// A person may have very many user ids. So all guests together may delay another user this many times as long as
    /// a single guest.
    package static let guestsTogether: UInt64 = 4
    /// The user id of an unknown program.
    fileprivate static let unknown = UInt32.max

    package struct Account: Hashable, Sendable {
        /// The user that delays.
        package let guest: UInt32
        /// The user that is delayed.
        package let delayed: UInt32
        /// The delayed user; nil if unknown.
        var user: UInt32? { delayed == DelayLedger.unknown ? nil : delayed }

        package init(of guest: UInt32, delaying delayed: UInt32) {
            (self.guest, self.delayed) = (guest, delayed)
        }
    }

    fileprivate struct Entry {
        let began: Instant
        var spent = TimeSpan.zero
        /// The end of the time counted so far: two delays at the same time count once.
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
        /// The delays by all guests together, by the delayed user.
        var sums: [UInt32: Entry] = [:]
        /// Of all presenters of a guest.
        var silences: [UInt32: UnansweredStreak] = [:]
        var lines = LogRateLimiter(lines: 1)
    }

    private let owner: UInt32?
    private let allowance: TimeSpan
    private let state = Mutex(State())

    /// `owner` is nil for a mount without guests.
    package init(allowing allowance: TimeSpan, besides owner: UInt32?) {
        self.owner = owner
        self.allowance = allowance
    }

    /// Whether the mount may have guests.
    var hasGuests: Bool { owner != nil }

    package func isGuest(_ user: UInt32?) -> Bool {
        guard let owner, let user else { return false }
        return user != 0 && user != owner
    }

    private var allowanceOfAll: TimeSpan {
        TimeSpan(nanoseconds: Self.guestsTogether * allowance.nanoseconds)
    }

    /// Nil if `guest` is not a guest, or is the delayed user itself.
    package func account(of guest: UInt32?, delaying delayed: UInt32?) -> Account? {
        guard isGuest(guest), let guest, guest != delayed else { return nil }
        return Account(of: guest, delaying: delayed ?? Self.unknown)
    }

    /// Counts a delay between two moments. Time that was counted before is not counted again.
    package func charge(_ account: Account, from begin: Instant, to end: Instant) {
        state.withLock { state in
            if state.entries[account] == nil { State.makeRoom(in: &state.entries, at: end) }
            state.entries[account, default: Entry(began: begin)].charge(from: begin, to: end)
            if state.sums[account.delayed] == nil {
                // The entries of root, the owner and unknown programs stay: guests could displace them with many
                // small ones.
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

    /// The suffix of a log line about a guest with a spent allowance; nil if the line must not be written.
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

/// Questions in a row that were not answered in time.
///
/// After three, each question has only a moment, until an answer comes in time or ten minutes are over. Without that
/// end, a slow presenter would never again get the time that it needs.
struct UnansweredStreak: Sendable {
    private static let most = 3
    private static let length = TimeSpan.seconds(600)
    private var count = 0
    private var last = Instant(nanoseconds: 0)

    func isLong(at now: Instant) -> Bool { count >= Self.most && now < last + Self.length }

    /// Returns whether the streak is long from now on. Questions with only a moment do not count.
    mutating func note(at now: Instant) -> Bool {
        if isLong(at: now) { return false }
        count = now < last + Self.length ? count + 1 : 1
        last = now
        return isLong(at: now)
    }
}

// Connections and guests that do not answer.
extension DelayLedger {
    /// Returns whether others wait for the guest's programs only a moment from now on.
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

/// How long a guest has made another user wait in the current hour.
package struct DelayReport: Hashable, Sendable {
    /// Nil for all guests together.
    package var guest: UInt32?
    /// Nil for unknown programs.
    package var delayed: UInt32?
    package var spent: TimeSpan
    package var allowed: TimeSpan
    /// When the count begins again.
    package var end: Instant

    package init(guest: UInt32?, delayed: UInt32?, spent: TimeSpan, allowed: TimeSpan, end: Instant) {
        (self.guest, self.delayed, self.spent, self.allowed, self.end) = (guest, delayed, spent, allowed, end)
    }
}

extension DelayLedger {
    /// The number of reports, those with the longest delays.
    private static let told = 100

    package func reports(at now: Instant) -> [DelayReport] {
        let entries = state.withLock { $0.entries }
        return Self.longest(
            entries.compactMap { report($1, of: $0.guest, delaying: $0.user, allowance, at: now) })
    }

    /// The delays by all guests together that exceed the allowance of a single guest; others would repeat a report.
    package func sums(at now: Instant) -> [DelayReport] {
        let sums = state.withLock { $0.sums }.filter { $0.value.spent > allowance }
        return Self.longest(
            sums.compactMap { delayed, entry in
                let user = Account(of: 0, delaying: delayed).user
                return report(entry, of: nil, delaying: user, allowanceOfAll, at: now)
            })
    }

    /// The delays between some users.
    func reports(among users: Set<UInt32>, at now: Instant) -> [DelayReport] {
        let accounts = state.withLock {
            $0.entries.keys.filter { users.contains($0.guest) && users.contains($0.delayed) }
        }
        return Self.longest(Array(Set(accounts.flatMap { reports(of: $0, at: now) })))
    }

    /// The reports of an account: its own, and that of all guests together if their allowance is spent.
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
