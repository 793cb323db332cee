// SPDX-License-Identifier: Apache-2.0
import Arbitration
import Coordination
import LinuxSystem
import Synchronization

// Limits the delays that guests cause; see ``DelayLedger``. The arbiter does not know users. So the engine limits the
// delays by two events: a question gets an earlier deadline, and a reader is reported as finished.

extension Engine {
    /// The interval at which delays by missing answers of guests are counted. It is also the time for an answer after
    /// the allowance of a guest is spent.
    private static let shortWait = TimeSpan.milliseconds(250)

    /// The delay that a reader causes now: the ledger's account for the delay, and the start of the delay. Nil if the
    /// reader belongs to no guest, or delays no other user.
    private func delay(by reader: ClaimID, in state: State) -> (account: DelayLedger.Account, since: Instant)?
    {
        guard delays.hasGuests, let contention = state.arbiter.contention(of: reader),
            let entry = state.claims[reader],
            state.arbiter.onlyReads(reader), let waiting = state.arbiter.party(of: contention.blockedClaim)
        else { return nil }
        let guest = entry.claimant.opener ?? state.arbiter.party(of: reader)?.user
        return delays.account(of: guest, delaying: waiting.user).map { account in
            // The contention can have begun with the claim of another user, before this claim waited.
            (account, max(contention.since, state.claims[contention.blockedClaim]?.since ?? contention.since))
        }
    }

    /// Counts the delay that a reader has caused until now. Called before each observation of the reader and at its
    /// end.
    func chargeDelay(by reader: ClaimID, at now: Instant, in state: State) {
        guard let delay = delay(by: reader, in: state) else { return }
        delays.charge(delay.account, from: delay.since, to: now)
    }

    /// The account of the delay that a reader causes, if the account's allowance is spent. Nil until the delay has
    /// lasted for `readerIdle`.
    private func exceeded(by reader: ClaimID, at now: Instant, in state: State) -> DelayLedger.Account? {
        guard let delay = delay(by: reader, in: state), now.since(delay.since) >= bounds.readerIdle,
            delays.isSpent(delay.account, at: now)
        else { return nil }
        return delay.account
    }

    /// Requests an observation of a holder. If the allowance of the holder's guest is spent, requests a check of the
    /// guest's rights and no observation.
    func observe(_ claim: ClaimID, at now: Instant, in state: inout State) -> DeferredEffect? {
        guard let claimant = state.claims[claim]?.claimant else { return nil }
        chargeDelay(by: claim, at: now, in: state)
        var kind = ObservationQueue.ObservationKind.fileState
        if case .notReached = state.claims[claim]?.delayLimit, exceeded(by: claim, at: now, in: state) != nil
        {
            kind = .rights
        }
        guard state.observations.needs(claim, kind) else { return nil }
        return .observe(claim, claimant, kind)
    }

    /// Adds the observation of a holder to the queue of the holder's user. Then begins the observations that the limits
    /// allow.
    func scheduleObservation(
        _ claim: ClaimID, _ claimant: any Claimant, _ kind: ObservationQueue.ObservationKind
    ) {
        let (user, threads) = (claimant.opener, claimant.observationThreads)
        let holderUser = ObservationQueue.HolderUser(user: user, isGuest: delays.isGuest(user))
        let due = withState { state in
            if state.claims[claim] != nil {
                state.observations.enter(claim, kind, of: holderUser, on: threads)
            }
            return state.observations.takeDue()
        }
        begin(due)
    }

    private func begin(_ observations: [ObservationQueue.ObservationRequest]) {
        for request in observations {
            let body: @Sendable () -> Void = { [self] in runObservation(request) }
            if let threads = request.threads { threads.run(body) } else { workers.run(body) }
        }
    }

    private func runObservation(_ request: ObservationQueue.ObservationRequest) {
        let claim = request.claim
        // The claim, or its contention, may have ended while the observation was in the queue.
        let claimant = withState { state in
            state.arbiter.isContended(claim) ? state.claims[claim]?.claimant : nil
        }
        var observation: Observation?
        switch request.kind {
        case .rights: claimant.map { suspendGuestReader(claim, $0) }
        case .fileState: observation = claimant?.observe()
        }
        let due = withState { state in
            state.observations.end(claim)
            if request.kind == .fileState, case .exemptAsWriter = state.claims[claim]?.delayLimit {
                state.claims[claim]?.delayLimit = .notReached
            }
            return state.observations.takeDue()
        }
        begin(due)
        if let observation { submit(.observed(claim, observation)) }
    }

    /// If a guest is not allowed to write the file, reports the guest's reader as finished. If the guest is allowed to
    /// write the file, the reader is observed like other readers.
    private func suspendGuestReader(_ claim: ClaimID, _ claimant: any Claimant) {
        let mayWrite = claimant.userMayWrite()
        let now = Self.now
        let account: DelayLedger.Account? = withState { state in
            if mayWrite { state.claims[claim]?.delayLimit = .exemptAsWriter }
            guard !mayWrite, let account = exceeded(by: claim, at: now, in: state) else { return nil }
            // The check and the report are made under one lock, so that the contention cannot end between the check and
            // the report.
            state.arbiter.handle(.observed(claim, .atEnd), at: now, into: &state.effects)
            state.claims[claim]?.delayLimit = .suspended(account)
            return account
        }
        guard let account else { return }
        logSpentAllowance(account, claimant.attribution, at: now)
        dispatch(nil)
    }

    private func logSpentAllowance(
        _ account: DelayLedger.Account, _ subject: Attribution, at now: Instant
    ) {
        guard let more = delays.admitLogLine(about: account.guest, at: now) else { return }
        logAction(
            "is waited for \(Self.shortWait) only: its user \(account.guest) has made user \(account.delayed) wait "
                + "\(bounds.guestDelay) within an hour\(more)", subject)
    }
}

// The time that presenters of guests take to answer.
extension Engine {
    /// Whether a question is to the presenter of a guest, so that the wait for the answer is counted.
    func isCharged(_ question: Question, in state: State) -> Bool {
        delays.hasGuests && delays.isGuest(state.presenters[question.presenter]?.party.user)
    }

    /// The time for the answer to a question, if it is shorter than usual; else nil.
    func answerTimeout(for question: Question, of entry: PresenterEntry, at now: Instant) -> TimeSpan? {
        guard delays.hasGuests, let guest = entry.party.user, delays.isGuest(guest) else { return nil }
        if entry.mailbox.isSilent(at: now) || delays.isSilent(guest, at: now) { return Self.shortWait }
        let account = delays.account(of: guest, delaying: question.cause.party.user)
        return account.map { delays.isSpent($0, at: now) } ?? false ? Self.shortWait : nil
    }

    /// Called when a guest is asked a question. Counts how long other users wait for the guest, until the guest has
    /// answered all its questions.
    func startCharging(_ id: QuestionID) {
        let now = Self.now
        let facts: (Question, PresenterEntry, UInt32, answerTimeout: TimeSpan?, isFirst: Bool)? =
            withState {
                state in
                guard let question = state.arbiter.question(id),
                    let entry = state.presenters[question.presenter],
                    let guest = entry.party.user
                else { return nil }
                let isFirst = state.answersChargedAt[guest] == nil
                if isFirst { state.answersChargedAt[guest] = now }
                return (question, entry, guest, answerTimeout(for: question, of: entry, at: now), isFirst)
            }
        guard let (question, entry, guest, answerTimeout, isFirst) = facts else { return }
        if let account = delays.account(of: guest, delaying: question.cause.party.user),
            delays.isSpent(account, at: now)
        {
            logSpentAllowance(account, entry.attribution, at: now)
            shortenDeadline(question, at: now)
        } else if let answerTimeout {
            submit(.hurried(id, answerTimeout))
        }
        if isFirst {
            timers.schedule(at: (now + Self.shortWait).nanoseconds) { [self] in
                chargeAnswersRepeatedly(of: guest)
            }
        }
    }

    /// The number of claims of a delayed user for which one step shortens the deadlines of questions. Later steps
    /// follow for the user's further claims.
    private static let shortenedAtOnce = 64

    /// Counts how long other users wait for a guest's answers. If the guest's allowance is spent, shortens the
    /// deadlines of its questions. Repeats this every `shortWait` until all questions are answered.
    private func chargeAnswersRepeatedly(of guest: UInt32) {
        let now = Self.now
        let (isOver, beyond): (Bool, [(DelayLedger.Account, Question, PresenterEntry)]) = withState {
            state in
            let users = chargeAnswers(of: guest, at: now, in: &state)
            guard state.arbiter.owesAnswers(guest) else {
                state.answersChargedAt[guest] = nil
                return (true, [])
            }
            let spent = users.compactMap { delays.account(of: guest, delaying: $0) }.filter {
                delays.isSpent($0, at: now)
            }
            return (false, spent.flatMap { questions(in: $0, in: state) })
        }
        if let (account, _, entry) = beyond.first {
            logSpentAllowance(account, entry.attribution, at: now)
        }
        for (_, question, _) in beyond { shortenDeadline(question, at: now) }
        if isOver { return }
        timers.schedule(at: (now + Self.shortWait).nanoseconds) { [self] in chargeAnswersRepeatedly(of: guest)
        }
    }

    /// The questions to the guest of an account with a deadline later than `shortWait` after the question.
    private func questions(
        in account: DelayLedger.Account, in state: State
    ) -> [(DelayLedger.Account, Question, PresenterEntry)] {
        let questions = state.arbiter.questions(
            to: account.guest, awaitedBy: account.user, atMost: Self.shortenedAtOnce)
        return questions.compactMap { question in
            guard question.deadline > question.asked + Self.shortWait else { return nil }
            return state.presenters[question.presenter].map { (account, question, $0) }
        }
    }

    /// Counts how long other users have waited for a guest's answers until now. Returns the users that still wait.
    private func chargeAnswers(of guest: UInt32, at now: Instant, in state: inout State) -> [UInt32?] {
        state.answersChargedAt[guest] = now
        return state.arbiter.waiting(forGuest: guest).map { user, claim, asked in
            if let account = delays.account(of: guest, delaying: user), let since = state.claims[claim]?.since
            {
                delays.charge(account, from: max(since, asked), to: now)
            }
            return user
        }
    }

    /// Limits the time for the answer to a question to `shortWait`. Under policy `fail`, a missing answer is then
    /// treated as consent, because the silence of a guest must not cause a refusal.
    private func shortenDeadline(_ question: Question, at now: Instant) {
        guard bounds.policy == .fail else { return submit(.hurried(question.id, Self.shortWait)) }
        timers.schedule(at: max(question.asked + Self.shortWait, now).nanoseconds) { [self] in
            consent(question.id, of: question.presenter)
        }
    }

    /// The shortest time between two counts of a delay. A guest can answer a thousand questions in a row, and a count
    /// for each answer would take too long.
    private static let countedTogether = TimeSpan.milliseconds(10)

    /// Notes an answer that came in time. A late answer has no effect, because it has delayed other users as long as a
    /// missing answer.
    func noteAnswer(to id: QuestionID) {
        guard delays.hasGuests else { return }
        let now = Self.now
        let found: (PresenterEntry, UInt32)? = withState { state in
            guard let question = state.arbiter.question(id), let entry = state.presenters[question.presenter],
                let guest = entry.party.user, delays.isGuest(guest)
            else { return nil }
            if now.since(state.answersChargedAt[guest] ?? question.asked) > Self.countedTogether {
                _ = chargeAnswers(of: guest, at: now, in: &state)
            }
            return (entry, guest)
        }
        guard let (entry, guest) = found else { return }
        entry.mailbox.noteAnswer()
        delays.noteAnswer(of: guest)
    }

    /// Notes that a presenter did not answer in time. Returns a suffix for the log line about the missing answer.
    func noteSilence(of entry: PresenterEntry, at now: Instant) -> String {
        guard let guest = entry.party.user, delays.isGuest(guest) else { return "" }
        entry.mailbox.noteSilence(at: now)
        guard delays.noteSilence(of: guest, at: now) else { return "" }
        return
            "; programs of user \(guest) are waited for \(Self.shortWait) only, until a presenter of that user answers"
    }
}
