// SPDX-License-Identifier: Apache-2.0
import Arbitration
import Coordination
import LinuxSystem
import Synchronization

// Carries out the effects of an event. The arbiter decides on them under the lock, and they run after the lock is
// released.

extension Engine {
    /// An action that is carried out after the lock is released.
    enum DeferredEffect {
        case tell(DecisionHandler, Decision)
        case identify(ClaimID, any Claimant)
        case observe(ClaimID, any Claimant, ObservationQueue.ObservationKind)
        case retarget(any Claimant, from: ItemID, to: ItemID)
        case call(@Sendable () -> Void)
        case wake(Instant)
        case deliver(Mailbox)
        /// Delivers a question to a guest, and starts to count how long other users wait for the answer. The mailbox is
        /// nil if an earlier effect of the event already delivers the mailbox's messages.
        case deliverAndCharge(Mailbox?, QuestionID)
        case logAction(DeferredLogLine)
        case tellSuspended(any Claimant, Suspension, DeferredLogLine)
        case logDeadlock(Explanation, Deadlock.Resolution, (any JournalSubject)?)
    }

    /// A line for the log. The line is formatted after the lock is released, because its text needs facts from `/proc`.
    struct DeferredLogLine {
        let what: String
        let subject: any JournalSubject
    }

    /// Passes an event to the arbiter, and carries out the effects.
    ///
    /// If `event` is nil, carries out the effects that an earlier event has left.
    ///
    /// `isTrue` is called under the lock. If it returns false, the arbiter does not get the event, and this method
    /// returns false. `renamed` is called under the lock, directly before the notice of a move (N13).
    @discardableResult
    func dispatch(_ event: ArbiterEvent?, if isTrue: () -> Bool = { true }, renamed: () -> Void = {}) -> Bool
    {
        let now = Self.now
        let (deferredEffects, dropped, isHandled): ([DeferredEffect], EventContext, Bool) = withState {
            state in
            let isHandled = isTrue()
            if let event, isHandled {
                note(event, at: now, in: &state)
                state.arbiter.handle(event, at: now, into: &state.effects)
                activeClientsFlag.store(state.arbiter.hasAwareClients, ordering: .relaxed)
            }
            let deferredEffects = takeDeferredEffects(at: now, in: &state) { effect in
                guard effect.tellsOfMove(in: event) else { return false }
                renamed()
                return true
            }
            renamed()
            return (deferredEffects, state.eventContext.end(), isHandled)
        }
        withExtendedLifetime(dropped) {}
        run(deferredEffects)
        return isHandled
    }

    /// If the list of effects has room for at most this many effects, its storage is reused for the next event.
    private static let reusableCapacity = 1024

    /// Removes all effects from the state, and converts them to actions. `before` is called with each effect, and
    /// returns whether the effect has changed the paths of items.
    func takeDeferredEffects(
        at now: Instant, in state: inout State, before: (Effect) -> Bool = { _ in false }
    ) -> [DeferredEffect] {
        var deferredEffects: [DeferredEffect] = []
        while !state.effects.isEmpty {
            var effects: [Effect] = []
            swap(&effects, &state.effects)
            for effect in effects {
                if before(effect) { state.messageBatch.paths.forget() }
                deferredEffect(for: effect, at: now, in: &state).map { deferredEffects.append($0) }
            }
            // A pause of presenters can add an effect that requests a wake-up, so the loop checks for new effects.
            deferredEffects += pauseOverQuota(at: now, in: &state)
            guard state.effects.isEmpty, effects.capacity <= Self.reusableCapacity else { continue }
            effects.removeAll(keepingCapacity: true)
            state.effects = effects
        }
        if !state.messageBatch.isUnused { state.messageBatch = MessageBatch() }
        return deferredEffects
    }

    /// If the event is an answer of a presenter, adds it to the journal. For other events, the effects are added.
    private func note(_ event: ArbiterEvent, at now: Instant, in state: inout State) {
        switch event {
        case .answered(let question, let presenter, let answer):
            let request = state.arbiter.openQuestions(of: presenter).first { $0.id == question }
            let what = request.map { "\($0.request.rawValue): \(answer.rawValue)" } ?? "too late"
            note(.answered, at: now, by: state.presenters[presenter], what, in: &state)
            if answer == .failed { state.eventContext.refuser = presenter }
        default: break
        }
    }

    /// Carries out effects in order. If an effect causes more effects on the same thread, they are added to the end of
    /// the queue. Nested calls could overflow the stack.
    func run(_ deferredEffects: [DeferredEffect]) {
        // Timers are set first, because a later effect may block for some time.
        for case .wake(let moment) in deferredEffects {
            timers.schedule(at: moment.nanoseconds) { [self] in submit(.tick) }
        }
        if let effectQueue = EffectQueue.current {
            return effectQueue.deferredEffects.append(contentsOf: deferredEffects)
        }
        guard !deferredEffects.isEmpty else { return }
        let effectQueue = EffectQueue(deferredEffects)
        effectQueue.enter()
        defer { effectQueue.leave() }
        while let deferredEffect = effectQueue.next() { perform(deferredEffect) }
    }

    /// Calls a closure after this thread has carried out all effects of the events that it has reported.
    package func runAfterEffects(_ body: @escaping @Sendable () -> Void) { run([.call(body)]) }

    /// The effects that one thread carries out, and effects that were added while it does so.
    private final class EffectQueue {
        var deferredEffects: [DeferredEffect]
        private var first = 0

        init(_ deferredEffects: [DeferredEffect]) { self.deferredEffects = deferredEffects }

        static var current: EffectQueue? {
            ThreadSlot.effectQueue.value.map { Unmanaged<EffectQueue>.fromOpaque($0).takeUnretainedValue() }
        }

        func enter() { ThreadSlot.effectQueue.value = Unmanaged.passUnretained(self).toOpaque() }
        func leave() { ThreadSlot.effectQueue.value = nil }

        func next() -> DeferredEffect? {
            guard first < deferredEffects.count else { return nil }
            defer { first += 1 }
            return deferredEffects[first]
        }
    }

    private func deferredEffect(for effect: Effect, at now: Instant, in state: inout State) -> DeferredEffect?
    {
        switch effect {
        case .grant(let claim, let grant): return recordDecision(claim, .granted(grant), at: now, in: &state)
        case .refuse(let claim, let refusal):
            let why = explanation(of: refusal, to: claim, at: now, in: state)
            return recordDecision(claim, .refused(refusal, why), at: now, in: &state)
        case .identify(let claim): return state.claims[claim].map { .identify(claim, $0.claimant) }
        case .observe(let claim): return observe(claim, at: now, in: &state)
        case .wake(let moment): return .wake(moment)
        case .ask(let question): return ask(question, at: now, in: &state)
        case .forfeit(let question, let isDemoted): return forfeit(question, isDemoted, at: now, in: &state)
        case .tell(let notice): return tell(notice, at: now, in: &state)
        case .retarget(let claim, let former, let item):
            let claimant = state.claims[claim]?.claimant
            note(.retargeted, at: now, claim: claim, by: claimant, in: &state)
            return claimant.map { .retarget($0, from: former, to: item) }
        case .deadlock(let deadlock): return note(deadlock, at: now, in: &state)
        case .suspend(let claim, let suspension):
            guard let claimant = state.claims[claim]?.claimant else { return nil }
            return suspend(claim, claimant, suspension, at: now, in: &state)
        }
    }

    /// How many notices of one event the journal shows. An event with very many presenters would otherwise fill the
    /// journal.
    private static let notedMessages = 64

    private func tell(_ notice: Notice, at now: Instant, in state: inout State) -> DeferredEffect? {
        state.messageBatch.told += 1
        if state.messageBatch.told <= Self.notedMessages {
            note(
                .told, at: now, by: state.presenters[notice.presenter],
                notice.cause.describes(notice.kind.rawValue), in: &state)
        }
        return post(
            .notice(notice.kind, notice.subitem), to: notice.presenter, notice.accessSession, notice.cause,
            version: notice.version, at: now, in: &state)
    }

    private func suspend(
        _ claim: ClaimID, _ claimant: any Claimant, _ suspension: Suspension, at now: Instant,
        in state: inout State
    ) -> DeferredEffect? {
        let isForced = suspension != .yielded && suspension != .unchanged
        if isForced { counters.suspended.count() } else { counters.yielded.count() }
        note(
            isForced ? .suspended : .yielded, at: now, claim: claim, by: claimant, suspension.rawValue,
            in: &state)
        guard isForced else { return nil }
        let line = DeferredLogLine(
            what: words(for: suspension, after: state.arbiter.longestHold(of: claim)), subject: claimant)
        return .tellSuspended(claimant, suspension, line)
    }

    /// Adds a deadlock to the journal and the log.
    private func note(_ deadlock: Deadlock, at now: Instant, in state: inout State) -> DeferredEffect {
        counters.deadlocks.count()
        let explanation = state.explanation(of: deadlock, at: now)
        state.eventContext.deadlock = (deadlock.claim, explanation)
        let subject = state.claims[deadlock.claim]?.claimant
        note(
            .deadlock, at: now, claim: deadlock.claim, by: subject,
            "\(deadlock.resolution.rawValue): " + deadlock.cycle.map { "\($0)" }.joined(separator: " "),
            in: &state)
        return .logDeadlock(explanation, deadlock.resolution, subject)
    }

    private func ask(_ question: Question, at now: Instant, in state: inout State) -> DeferredEffect? {
        counters.asked.count()
        note(
            .asked, at: now, by: state.presenters[question.presenter],
            question.cause.describes(question.request.rawValue), in: &state)
        let given = state.presenters[question.presenter].flatMap {
            answerTimeout(for: question, of: $0, at: now)
        }
        let content = PresenterMessage.Content.request(
            question.id, question.request, subitem: question.subitem,
            deadline: given.map { min(question.asked + $0, question.deadline) } ?? question.deadline)
        let delivery = post(
            content, to: question.presenter, question.accessSession, question.cause, at: now, in: &state)
        guard isCharged(question, in: state) else { return delivery }
        if case .deliver(let mailbox) = delivery { return .deliverAndCharge(mailbox, question.id) }
        return .deliverAndCharge(nil, question.id)
    }

    private func forfeit(
        _ question: Question, _ isDemoted: Bool, at now: Instant, in state: inout State
    ) -> DeferredEffect? {
        counters.forfeited.count()
        let what = question.cause.describes(question.request.rawValue)
        let entry = state.presenters[question.presenter]
        note(.forfeited, at: now, by: entry, what, in: &state)
        guard let entry else { return nil }
        let after =
            (isDemoted ? "; until it answers it gets events, but no questions" : "")
            + noteSilence(of: entry, at: now)
        return .logAction(
            DeferredLogLine(
                what: "did not answer \(what) within \(now.since(question.asked))\(after)",
                subject: entry))
    }

    private func perform(_ deferredEffect: DeferredEffect) {
        switch deferredEffect {
        case .tell(let outcome, let decision): outcome(decision.told)
        case .identify(let claim, let claimant): submit(.identified(claim, claimant.identify()))
        case .observe(let claim, let claimant, let kind): scheduleObservation(claim, claimant, kind)
        case .retarget(let claimant, let former, let item): claimant.retarget(from: former, to: item)
        case .call(let body): body()
        // Nothing is left to do: all wake-ups were scheduled before the other effects.
        case .wake: break
        case .deliver(let mailbox): mailbox.deliver()
        case .deliverAndCharge(let mailbox, let question):
            mailbox?.deliver()
            startCharging(question)
        case .logAction(let logLine):
            workers.run { [self] in logAction(logLine.what, logLine.subject.attribution) }
        case .tellSuspended(let claimant, let suspension, let logLine):
            workers.run { [self] in
                logAction(logLine.what, logLine.subject.attribution)
                claimant.didSuspend(because: suspension)
            }
        case .logDeadlock(let explanation, let resolution, let subject):
            workers.run { [self] in
                let whom = subject.map { Self.name(of: $0.attribution) } ?? "an ended process"
                let cycle = explanation.sentences.joined(separator: "; ")
                let user = subject?.attribution.user ?? Self.unknownUser
                guard let more = deadlockLogLimiter.note(user, at: Self.now) else { return }
                log("deadlock: \(cycle); \(words(for: resolution, whom))\(more)")
            }
        }
    }
}

extension Effect {
    /// Whether the effect only stores a message or sets a timer, so that it never blocks.
    var neverBlocks: Bool {
        switch self {
        case .ask, .tell, .wake: true
        case .grant, .refuse, .identify, .observe, .suspend, .retarget, .deadlock, .forfeit: false
        }
    }
}

/// Facts about the present event that its effects need, and objects that are freed after the lock is released.
struct EventContext {
    /// Records of ended claims. They are stored, so that they are freed only after the lock is released.
    var dropped: [Engine.ClaimRecord] = []
    /// Steps that were removed from the journal. They are stored, so that they are freed only after the lock is
    /// released.
    var droppedSteps: [JournalEntry] = []
    /// The presenter that answered this event's question with an error.
    var refuser: PresenterID?
    /// The last deadlock that was found: the claim that is changed to end it, and the cycle.
    var deadlock: (ClaimID, Explanation)?

    /// Returns the context of the event, and resets it for the next event.
    mutating func end() -> EventContext {
        let eventContext = self
        self = EventContext()
        return eventContext
    }
}

/// The messages to presenters that one event causes.
struct MessageBatch {
    /// The number of notices.
    var told = 0
    var paths = SubitemPathCache()
    var delivered: Set<ObjectIdentifier> = []
    /// Mailboxes with too many messages.
    var overfull: [Mailbox] = []

    var isUnused: Bool { delivered.isEmpty }
}

extension Effect {
    /// Whether this effect tells a presenter of a directory above that the moved item has a new name.
    fileprivate func tellsOfMove(in event: ArbiterEvent?) -> Bool {
        guard case .moved(let item, _, _, _) = event, case .tell(let notice) = self else { return false }
        return notice.subitem?.item == item && notice.kind != .subitemDidChange
    }
}
