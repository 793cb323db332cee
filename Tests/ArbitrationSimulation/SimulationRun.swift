// SPDX-License-Identifier: Apache-2.0
import Arbitration
package import Coordination

/// One promise that was not kept.
package struct Violation: Hashable, Sendable, CustomStringConvertible {
    /// Which checker says so.
    package let checker: String
    package let what: String
    package let moment: Instant
    package var description: String { "\(moment): \(checker): \(what)" }
}

/// What a checker has found in the event at hand.
struct ViolationReport {
    var found: [String] = []
    mutating func addViolation(_ what: String) { found.append(what) }
}

/// One promise, checked from outside: it sees each event, each effect and what the ledger says.
protocol Checker: Sendable {
    /// After the event has been noted, before its effects.
    mutating func noteEvent(_ event: ArbiterEvent, _ model: WorldModel, _ report: inout ViolationReport)
    /// Before the effect is noted.
    mutating func noteEffect(
        _ effect: Effect, of event: ArbiterEvent, _ model: WorldModel, _ report: inout ViolationReport)
    /// When all effects of an event have been noted.
    mutating func finish(after event: ArbiterEvent, _ model: WorldModel, _ report: inout ViolationReport)
}

extension Checker {
    mutating func noteEvent(_ event: ArbiterEvent, _ model: WorldModel, _ report: inout ViolationReport) {}
    mutating func noteEffect(
        _ effect: Effect, of event: ArbiterEvent, _ model: WorldModel, _ report: inout ViolationReport
    ) {}
    mutating func finish(after event: ArbiterEvent, _ model: WorldModel, _ report: inout ViolationReport) {}
}

/// What becomes of an effect before anybody sees it: so it is shown that the checkers can complain.
package typealias FaultInjection = @Sendable (Effect) -> [Effect]

/// Steps told to an arbiter, in virtual time, with the checkers beside it.
///
/// The same steps give the same performance: whatever is random is decided by whoever makes the steps.
package struct SimulationRun: Sendable {
    package private(set) var findings: [Violation] = []
    package private(set) var totals = SimulationCounts()
    private(set) var model: WorldModel
    private(set) var arbiter: Arbiter
    /// Everything that was said, if somebody wants to read it.
    package private(set) var transcript: [String] = []
    private let isVerbose: Bool
    private let injectFault: FaultInjection?
    private var makers: [ClaimID: Party] = [:]
    private var checkers: [any Checker] = [
        GrantChecker(), WaitChecker(), QueueChecker(), ContentionChecker(), DeadlockChecker(),
        QuestionChecker(),
        ConsentChecker(), AccessSessionChecker(), NoticeChecker(), NameViewChecker(),
    ]

    package init(bounds: Bounds, isVerbose: Bool = false, injectFault: FaultInjection? = nil) {
        self.injectFault = injectFault
        model = WorldModel(bounds: bounds)
        arbiter = Arbiter(bounds: bounds)
        self.isVerbose = isVerbose
    }

    /// What the arbiter did, in order.
    @discardableResult
    package mutating func perform(_ step: SimulationStep) -> [Effect] {
        var effects: [Effect] = []
        switch step {
        case .claim(let request, let party):
            if let party { makers[request.claim] = party }
            tell(.claimed(request), &effects)
            if request.nature == .pendingSave, let party { tell(.identified(request.claim, party), &effects) }
        case .event(let event): tell(event, &effects)
        case .advance(let span):
            let end = model.now + span
            while let moment = model.wake, moment <= end {
                model.now = max(moment, model.now)
                tell(.tick, &effects)
            }
            model.now = end
        case .late(let span):
            model.now = model.now + span
            tell(.tick, &effects)
        }
        return effects
    }

    /// Who made a claim, as scenario files know it: only if it was said beforehand.
    func maker(of claim: ClaimID) -> Party { makers[claim] ?? .nobody }

    private mutating func tell(_ event: ArbiterEvent, _ all: inout [Effect]) {
        if isVerbose { transcript.append("\(model.now): \(CommandWriter.text(.event(event)))") }
        totals.count(event, model)
        var report = ViolationReport()
        model.note(event, at: model.now)
        for index in checkers.indices { noteEvent(index, event, &report) }
        var effects: [Effect] = []
        arbiter.handle(event, at: model.now, into: &effects)
        if let injectFault { effects = effects.flatMap(injectFault) }
        for effect in effects {
            if isVerbose { transcript.append("        \(describe(effect))") }
            totals.count(effect, model)
            for index in checkers.indices { noteEffect(index, effect, event, &report) }
            model.note(effect)
        }
        for index in checkers.indices { finish(index, event, &report) }
        if model.isQuiet, !arbiter.isAtRest {
            addViolation("RestChecker", "all is over, and the arbiter remembers something")
        }
        all += effects
        for case .identify(let claim) in effects {
            if let party = makers[claim] { tell(.identified(claim, party), &all) }
        }
    }

    /// When everybody has left and every directory is forgotten.
    package mutating func checkEnd() {
        if !model.isQuiet { addViolation("RestChecker", "something is going on when all is over") }
        if arbiter.remembered > 0 {
            addViolation("RestChecker", "\(arbiter.remembered) records are left when all is over")
        }
    }

    private mutating func addViolation(_ checker: String, _ what: String) {
        if findings.count < 5 { findings.append(Violation(checker: checker, what: what, moment: model.now)) }
        if isVerbose { transcript.append("!!! \(checker): \(what)") }
    }

    private mutating func collect(_ index: Int, _ report: inout ViolationReport) {
        guard !report.found.isEmpty else { return }
        for what in report.found { addViolation("\(type(of: checkers[index]))", what) }
        report.found = []
    }

    private mutating func noteEvent(_ index: Int, _ event: ArbiterEvent, _ report: inout ViolationReport) {
        checkers[index].noteEvent(event, model, &report)
        collect(index, &report)
    }

    private mutating func noteEffect(
        _ index: Int, _ effect: Effect, _ event: ArbiterEvent, _ report: inout ViolationReport
    ) {
        checkers[index].noteEffect(effect, of: event, model, &report)
        collect(index, &report)
    }

    private mutating func finish(_ index: Int, _ event: ArbiterEvent, _ report: inout ViolationReport) {
        checkers[index].finish(after: event, model, &report)
        collect(index, &report)
    }
}
