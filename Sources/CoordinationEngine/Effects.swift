// SPDX-License-Identifier: Apache-2.0
import Arbitration
import Coordination
import LinuxSystem
import Synchronization

// What follows from an event: decided under the lock, done after it.

extension Engine {
    /// Something to do once the lock is released.
    private enum Task {
        case tell(Outcome, Decision)
        case identify(ClaimID, any Claimant)
        case observe(ClaimID, any Claimant)
        case wake(Instant)
        case deliver(Mailbox)
        case say(Saying)
    }

    /// A line for the log; put into words after the lock, because that reads `/proc`.
    private struct Saying {
        let what: String
        let account: Account
    }

    /// Hands an event to the arbiter and does what follows, including what follows from that.
    ///
    /// With no event, it does what an earlier one left undone.
    func carryOut(_ event: Event?) {
        let now = Self.now
        let (tasks, ended): ([Task], Entry?) = state.withLock { state in
            var ended: Entry?
            if let event {
                ended = note(event, at: now, in: &state)
                state.arbiter.handle(event, at: now, into: &state.effects)
                attended.store(state.arbiter.isAttended, ordering: .relaxed)
            }
            guard !state.effects.isEmpty else { return ([], ended) }
            let tasks = state.effects.compactMap { task(for: $0, at: now, in: &state) }
            state.effects.removeAll(keepingCapacity: true)
            return (tasks, ended)
        }
        withExtendedLifetime(ended) {}
        run(tasks)
    }

    /// What an event says by itself, whatever follows from it.
    private func note(_ event: Event, at now: Instant, in state: inout State) -> Entry? {
        switch event {
        case .ended(let claim):
            let ended = state.claims.removeValue(forKey: claim)
            if let ended { journal.note(.ended, at: now, claim: claim, by: ended.claimant) }
            return ended
        case .answered(let question, let presenter, let answer):
            let request = state.arbiter.openQuestions(of: presenter).first { $0.id == question }
            let what = request.map { "\($0.request.rawValue): \(answer.rawValue)" } ?? "too late"
            journal.note(.answered, at: now, by: state.presenters[presenter], what)
        default: break
        }
        return nil
    }

    /// Does what was decided, in order. What follows from it on this thread is done after it and not inside
    /// it: ten thousand opens that end each other's waits must not nest.
    private func run(_ tasks: [Task]) {
        if let turn = Turn.current { return turn.tasks.append(contentsOf: tasks) }
        guard !tasks.isEmpty else { return }
        let turn = Turn(tasks)
        turn.enter()
        defer { turn.leave() }
        while let task = turn.next() { perform(task) }
    }

    /// The tasks of one thread, while it does them.
    private final class Turn {
        var tasks: [Task]
        private var first = 0

        init(_ tasks: [Task]) { self.tasks = tasks }

        static var current: Turn? {
            ThreadSlot.turn.value.map { Unmanaged<Turn>.fromOpaque($0).takeUnretainedValue() }
        }

        func enter() { ThreadSlot.turn.value = Unmanaged.passUnretained(self).toOpaque() }
        func leave() { ThreadSlot.turn.value = nil }

        func next() -> Task? {
            guard first < tasks.count else { return nil }
            defer { first += 1 }
            return tasks[first]
        }
    }

    private func task(for effect: Effect, at now: Instant, in state: inout State) -> Task? {
        switch effect {
        case .grant(let claim, let grant): return settle(claim, .granted(grant), at: now, in: &state)
        case .refuse(let claim, let refusal): return settle(claim, .refused(refusal), at: now, in: &state)
        case .identify(let claim): return state.claims[claim].map { .identify(claim, $0.claimant) }
        case .observe(let claim): return state.claims[claim].map { .observe(claim, $0.claimant) }
        case .wake(let moment): return .wake(moment)
        case .ask(let question): return ask(question, at: now, in: &state)
        case .forfeit(let question, let isDemoted): return forfeit(question, isDemoted, at: now, in: &state)
        case .tell(let notice):
            journal.note(
                .told, at: now, by: state.presenters[notice.presenter],
                notice.cause.describes(notice.kind.rawValue))
            return post(.notice(notice.kind), to: notice.presenter, notice.turn, notice.cause, in: state)
                .map { .deliver($0) }
        case .retarget, .deadlock: return nil
        case .suspend(let claim, let suspension):
            guard let claimant = state.claims[claim]?.claimant else { return nil }
            let isForced = suspension != .yielded
            if isForced { counters.suspended.count() } else { counters.yielded.count() }
            journal.note(
                isForced ? .suspended : .yielded, at: now, claim: claim, by: claimant,
                suspension.rawValue)
            return isForced
                ? .say(Saying(what: words(for: suspension), account: claimant.account)) : nil
        }
    }

    private func ask(_ question: Question, at now: Instant, in state: inout State) -> Task? {
        counters.asked.count()
        journal.note(
            .asked, at: now, by: state.presenters[question.presenter],
            question.cause.describes(question.request.rawValue))
        let content = PresenterMessage.Content.request(
            question.id, question.request, deadline: question.deadline)
        return post(content, to: question.presenter, question.turn, question.cause, in: state)
            .map { .deliver($0) }
    }

    private func forfeit(
        _ question: Question, _ isDemoted: Bool, at now: Instant, in state: inout State
    ) -> Task? {
        counters.forfeited.count()
        let what = question.cause.describes(question.request.rawValue)
        let entry = state.presenters[question.presenter]
        journal.note(.forfeited, at: now, by: entry, what)
        guard let entry else { return nil }
        let after = isDemoted ? "; it is told, and not asked any more, until it answers" : ""
        return .say(
            Saying(
                what: "did not answer \(what) within \(now.since(question.asked))\(after)",
                account: entry.account))
    }

    private func settle(
        _ claim: ClaimID, _ decision: Decision, at now: Instant, in state: inout State
    ) -> Task? {
        guard let entry = state.claims[claim] else { return nil }
        if case .granted = decision { state.claims[claim]?.since = now }
        note(decision, of: claim, entry, at: now)
        switch entry.standing {
        case .waiting(let since):
            remark(decision, of: entry, waiting: now.since(since))
            state.settle(claim, .decided(decision))
            return nil
        case .waitingTelling(let since, let outcome):
            remark(decision, of: entry, waiting: now.since(since))
            if case .granted = decision { state.settle(claim, .held) } else { state.claims[claim] = nil }
            return .tell(outcome, decision)
        case .decided, .held: preconditionFailure("\(claim) was settled twice")
        }
    }

    private func note(_ decision: Decision, of claim: ClaimID, _ entry: Entry, at now: Instant) {
        let subject = entry.claimant
        switch decision {
        case .granted(let grant):
            counters.granted.count()
            let hasProceeded = grant.basis == .proceeded
            if hasProceeded { counters.proceeded.count() }
            journal.note(
                hasProceeded ? .proceeded : .granted, at: now, claim: claim, by: subject,
                grant.passed.map { "over \($0.claim)" }.joined(separator: " "))
        case .refused(.withdrawn): journal.note(.withdrawn, at: now, claim: claim, by: subject)
        case .refused(.busy), .refused(.presenterFailed), .refused(.deadlock):
            journal.note(.refused, at: now, claim: claim, by: subject)
        }
    }

    /// Every wait over a second and every step over somebody's claim is one line of the log.
    private func remark(_ decision: Decision, of entry: Entry, waiting span: Span) {
        let what: String
        switch decision {
        case .granted(let grant) where grant.basis == .proceeded: what = "went ahead after waiting \(span)"
        case .granted where span > .seconds(1): what = "waited \(span)"
        case .refused(.busy): what = "was refused after waiting \(span)"
        default: return
        }
        let (account, obstacle) = (entry.claimant.account, entry.obstacle?.account)
        workers.run { [self] in
            say(obstacle.map { "\(what) for \(Self.name(of: $0))" } ?? what, account)
        }
    }

    private func perform(_ task: Task) {
        switch task {
        case .tell(let outcome, let decision): outcome(decision)
        case .identify(let claim, let claimant): submit(.identified(claim, claimant.identify()))
        case .observe(let claim, let claimant):
            workers.run { [self] in submit(.observed(claim, claimant.observe())) }
        case .wake(let moment):
            timers.schedule(at: moment.nanoseconds) { [self] in submit(.tick) }
        case .deliver(let mailbox): mailbox.deliver()
        case .say(let saying): workers.run { [self] in say(saying.what, saying.account) }
        }
    }

    private func words(for suspension: Suspension) -> String {
        switch suspension {
        case .yielded: "let others pass"
        case .stoodStill: "stood still in the middle for \(bounds.readerIdle) and was passed"
        case .idle: "changed nothing for \(bounds.idle) and was passed by readers"
        case .held: "kept others out for \(bounds.hold) and was passed"
        case .deadlocked: "waited for somebody who waited for it, and was passed"
        }
    }

    /// Writes one line to the log: who, what, and the path.
    package func say(_ what: String, _ account: Account) {
        log("\(Self.name(of: account)) \(what): \(String(decoding: account.path(), as: UTF8.self))")
    }

    static func name(of account: Account) -> String {
        let program = account.currentProgram.map { String(decoding: $0, as: UTF8.self) } ?? "somebody gone"
        return "\(program) (\(account.thread))"
    }
}
