// SPDX-License-Identifier: Apache-2.0
import Arbitration
import Coordination
import LinuxSystem
import Synchronization

// What guests make others wait; see ``DelayLedger``. The arbiter knows of no users: it is told how long a request may still take, and
// that a reader lets others pass.

extension Engine {
    /// How often it is looked at for whom a guest's answer is waited for, and how long it is waited for when that is enough.
    private static let moment = Span.milliseconds(250)
    /// Claims that are looked at, of those that wait for one answer.
    private static let mostWaiting = 1024

    /// What was seen of a holder, or that it lets others pass if it reads what its user may not write, and that user has made the one
    /// who waits wait long enough.
    func allowing(
        _ observation: Observation, of claim: ClaimID, _ claimant: any Claimant
    ) -> Observation {
        guard delays.hasGuests, observation.isOfReader else { return observation }
        let contest = state.withLock { state in
            state.arbiter.contest(of: claim).map { contest in
                (
                    since: contest.since, reader: state.arbiter.party(of: claim)?.user,
                    writer: state.arbiter.party(of: contest.contestant)?.user
                )
            }
        }
        guard let contest,
            let account = delays.account(of: claimant.opener ?? contest.reader, delaying: contest.writer)
        else { return observation }
        let now = Self.now
        delays.charge(account, from: contest.since, to: now)
        guard now.since(contest.since) >= bounds.readerIdle, delays.isSpent(account, at: now),
            !claimant.mayItsUserWrite()
        else { return observation }
        sayEnough(account, claimant.account, at: now)
        return .atEnd
    }

    private func sayEnough(_ account: DelayLedger.Account, _ subject: Account, at now: Instant) {
        guard let more = delays.noteLine(about: account.guest, at: now) else { return }
        say(
            "is waited for \(Self.moment) only: its user \(account.guest) has made user \(account.delayed) wait "
                + "\(bounds.guestDelay) within an hour\(more)", subject)
    }
}

// Answers of guests' presenters.
extension Engine {
    /// Whether a request is put to a guest, so that it is counted how long others wait for the answer.
    func isCounted(_ question: Question, in state: State) -> Bool {
        delays.hasGuests && delays.isGuest(state.presenters[question.presenter]?.party.user)
    }

    /// How long is waited for the answer to a request; nil for as long as for everybody's.
    func patience(for question: Question, of entry: PresenterEntry, at now: Instant) -> Span? {
        guard delays.hasGuests, let guest = entry.party.user, delays.isGuest(guest) else { return nil }
        if entry.mailbox.isSilent(at: now) || delays.isSilent(guest, at: now) { return Self.moment }
        let account = delays.account(of: guest, delaying: question.cause.party.user)
        return account.map { delays.isSpent($0, at: now) } ?? false ? Self.moment : nil
    }

    /// Counts how long others wait for an answer, until it is there, and waits no longer when that is enough.
    func count(_ id: QuestionID) {
        guard let waits = waits(for: id) else { return }
        let now = Self.now
        charge(waits, at: now)
        let spent = waits.accounts.keys.first { delays.isSpent($0, at: now) }
        if let spent {
            sayEnough(spent, waits.entry.account, at: now)
            hurry(waits, at: now)
        } else if let patience = patience(for: waits.question, of: waits.entry, at: now) {
            submit(.hurried(id, patience))
        }
        timers.schedule(at: (now + Self.moment).nanoseconds) { [self] in count(id) }
    }

    /// A guest's silence refuses nothing: under policy `fail` it has agreed.
    private func hurry(_ waits: Waits, at now: Instant) {
        guard bounds.policy == .fail else { return submit(.hurried(waits.question.id, Self.moment)) }
        guard now.since(waits.question.asked) >= Self.moment else { return }
        consent(waits.question.id, of: waits.question.presenter)
    }

    /// The answer is there, and in time: one that comes too late has made others wait as long as none.
    func noteAnswer(to id: QuestionID) {
        guard delays.hasGuests, let waits = waits(for: id), let guest = waits.entry.party.user else { return }
        charge(waits, at: Self.now)
        waits.entry.mailbox.noteAnswer()
        delays.noteAnswer(of: guest)
    }

    /// The users that wait for an answer of a guest's, and since when.
    private struct Waits {
        let question: Question
        let entry: PresenterEntry
        var accounts: [DelayLedger.Account: Instant] = [:]
    }

    private func waits(for id: QuestionID) -> Waits? {
        state.withLock { state in
            guard let question = state.arbiter.question(id), let entry = state.presenters[question.presenter],
                delays.isGuest(entry.party.user)
            else { return nil }
            var waits = Waits(question: question, entry: entry)
            for claim in state.arbiter.waiting(for: id, atMost: Self.mostWaiting) {
                let user = state.arbiter.party(of: claim)?.user
                guard let account = delays.account(of: entry.party.user, delaying: user),
                    let since = state.claims[claim]?.since
                else { continue }
                waits.accounts[account] = min(waits.accounts[account] ?? since, since)
            }
            return waits
        }
    }

    private func charge(_ waits: Waits, at now: Instant) {
        for (account, since) in waits.accounts {
            delays.charge(account, from: max(since, waits.question.asked), to: now)
        }
    }

    /// Returns what the log says besides.
    func noteSilence(of entry: PresenterEntry, at now: Instant) -> String {
        guard let guest = entry.party.user, delays.isGuest(guest) else { return "" }
        entry.mailbox.noteSilence(at: now)
        guard delays.noteSilence(of: guest, at: now) else { return "" }
        return "; programs of user \(guest) are waited for \(Self.moment) only, until one of them answers"
    }
}

extension Observation {
    fileprivate var isOfReader: Bool {
        switch self {
        case .reading, .finishing: true
        case .clean, .unchanged, .untouched, .dirty, .atEnd: false
        }
    }
}
