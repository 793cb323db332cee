// SPDX-License-Identifier: Apache-2.0
package import Coordination
import Synchronization

/// Counts how long guests have made other users wait, and which guests do not answer questions.
///
/// A guest can delay another user: its readers make writers wait, and its presenters can answer late. The ledger limits
/// this: in one hour, another user waits for a guest at most `guestDelay` in total. After that, the other user waits
/// only for a moment for each program of the guest.
package final class DelayLedger: Sendable {
    package static let period = TimeSpan.seconds(3600)
    /// The largest number of pairs of a guest and a delayed user. If there are more, the pair with the shortest delay
    /// is removed.
    package static let most = 1024
    /// All guests together can delay another user only four times as long as a single guest, because a person can have
    /// very many user ids.
    package static let guestsTogether: UInt64 = 4
    /// The user id that is stored for a program with an unknown user.
    fileprivate static let unknown = UInt32.max

    package struct Account: Hashable, Sendable {
        /// The guest that makes the other user wait.
        package let guest: UInt32
        /// The user that waits for the guest.
        package let delayed: UInt32
        /// The user that waits; nil if it is unknown.
        var user: UInt32? { delayed == DelayLedger.unknown ? nil : delayed }

        package init(of guest: UInt32, delaying delayed: UInt32) {
            (self.guest, self.delayed) = (guest, delayed)
        }
    }

    fileprivate struct Entry {
        let began: Instant
        var spent = TimeSpan.zero
        /// The moment up to which delays were counted. If two delays overlap in time, the common part is counted only
        /// once.
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
        /// For each delayed user, the delays by all guests together.
        var sums: [UInt32: Entry] = [:]
        /// For each guest, the number of questions in a row that its presenters have not answered in time.
        var silences: [UInt32: UnansweredStreak] = [:]
        var lines = LogRateLimiter(lines: 1)
    }

    private let owner: UInt32?
    private let allowance: TimeSpan
    private let state = Mutex(State())

    /// Makes an empty ledger. `owner` is the owner of the mount; nil for a mount without guests.
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

    /// The account that sums up how long a guest has delayed another user. Nil if `guest` is not a guest, or is the
    /// delayed user itself.
    package func account(of guest: UInt32?, delaying delayed: UInt32?) -> Account? {
        guard isGuest(guest), let guest, guest != delayed else { return nil }
        return Account(of: guest, delaying: delayed ?? Self.unknown)
    }

    /// Adds a delay between two moments to an account. Time that the account has counted already is not counted again.
    package func charge(_ account: Account, from begin: Instant, to end: Instant) {
        state.withLock { state in
            if state.entries[account] == nil { State.makeRoom(in: &state.entries, at: end) }
            state.entries[account, default: Entry(began: begin)].charge(from: begin, to: end)
            if state.sums[account.delayed] == nil {
                // The entries of root, the owner and unknown programs are never removed, so that guests cannot displace
                // them with many entries of their own.
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

    /// Returns the suffix of a log line about a guest with a spent allowance; nil if the line must not be written.
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

/// Counts the questions in a row that were not answered in time.
///
/// After three such questions, each further question has only a short time for its answer. The usual time returns with
/// an answer in time, or after ten minutes. So even a slow presenter gets the time that it needs again.
struct UnansweredStreak: Sendable {
    private static let most = 3
    private static let length = TimeSpan.seconds(600)
    private var count = 0
    private var last = Instant(nanoseconds: 0)

    func isLong(at now: Instant) -> Bool { count >= Self.most && now < last + Self.length }

    /// Counts a question that was not answered in time. Returns whether this question is the third in a row, so that
    /// the streak is long now.
    mutating func note(at now: Instant) -> Bool {
        if isLong(at: now) { return false }
        count = now < last + Self.length ? count + 1 : 1
        last = now
        return isLong(at: now)
    }
}

// Connections and guests that do not answer questions.
extension DelayLedger {
    /// Counts an unanswered question of a guest. Returns whether the guest's questions have only a short time from now
    /// on.
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

/// A report of how long a guest has made another user wait in the current hour.
package struct DelayReport: Hashable, Sendable {
    /// The guest; nil for all guests together.
    package var guest: UInt32?
    /// The user that waited; nil for programs with an unknown user.
    package var delayed: UInt32?
    package var spent: TimeSpan
    package var allowed: TimeSpan
    /// The end of the hour, at which the count begins again at zero.
    package var end: Instant

    package init(guest: UInt32?, delayed: UInt32?, spent: TimeSpan, allowed: TimeSpan, end: Instant) {
        (self.guest, self.delayed, self.spent, self.allowed, self.end) = (guest, delayed, spent, allowed, end)
    }
}

extension DelayLedger {
    /// The largest number of reports that are returned: the reports with the longest delays.
    private static let told = 100

    package func reports(at now: Instant) -> [DelayReport] {
        let entries = state.withLock { $0.entries }
        return Self.longest(
            entries.compactMap { report($1, of: $0.guest, delaying: $0.user, allowance, at: now) })
    }

    /// The delays by all guests together, for each delayed user. Delays below the allowance of a single guest are left
    /// out.
    package func sums(at now: Instant) -> [DelayReport] {
        let sums = state.withLock { $0.sums }.filter { $0.value.spent > allowance }
        return Self.longest(
            sums.compactMap { delayed, entry in
                let user = Account(of: 0, delaying: delayed).user
                return report(entry, of: nil, delaying: user, allowanceOfAll, at: now)
            })
    }

    /// The delays for which both the guest and the delayed user are in `users`.
    func reports(among users: Set<UInt32>, at now: Instant) -> [DelayReport] {
        let accounts = state.withLock {
            $0.entries.keys.filter { users.contains($0.guest) && users.contains($0.delayed) }
        }
        return Self.longest(Array(Set(accounts.flatMap { reports(of: $0, at: now) })))
    }

    /// The reports of an account: the report of its guest, and a report of all guests together if their allowance is
    /// spent.
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
