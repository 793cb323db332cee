// SPDX-License-Identifier: Apache-2.0
import Arbitration
package import Coordination

/// A violation of a rule that a checker has found.
package struct Violation: Hashable, Sendable, CustomStringConvertible {
    /// The name of the checker that reports the violation.
    package let checker: String
    package let what: String
    package let moment: Instant
    package var description: String { "\(moment): \(checker): \(what)" }
}

/// The violations that a checker has found in the current event.
struct ViolationReport {
    var found: [String] = []
    mutating func addViolation(_ what: String) { found.append(what) }
}

/// Checks a group of rules. A checker reads each event, each effect and the model, but nothing inside the arbiter.
protocol Checker: Sendable {
    /// Called after the model has recorded the event and before the effects of the event.
    mutating func noteEvent(_ event: ArbiterEvent, _ model: WorldModel, _ report: inout ViolationReport)
    /// Called for each effect, before the model records the effect.
    mutating func noteEffect(
        _ effect: Effect, of event: ArbiterEvent, _ model: WorldModel, _ report: inout ViolationReport)
    /// Called when the model has recorded all effects of an event.
    mutating func finish(after event: ArbiterEvent, _ model: WorldModel, _ report: inout ViolationReport)
}

extension Checker {
    mutating func noteEvent(_ event: ArbiterEvent, _ model: WorldModel, _ report: inout ViolationReport) {}
    mutating func noteEffect(
        _ effect: Effect, of event: ArbiterEvent, _ model: WorldModel, _ report: inout ViolationReport
    ) {}
    mutating func finish(after event: ArbiterEvent, _ model: WorldModel, _ report: inout ViolationReport) {}
}

/// Changes the effects before the checkers read them. Tests use such changes to show that the checkers find faults.
package typealias FaultInjection = @Sendable (Effect) -> [Effect]

/// Carries out steps with an arbiter in virtual time, and calls the checkers.
///
/// The same steps give the same run, because all random choices are made when the steps are generated.
package struct SimulationRun: Sendable {
    package private(set) var findings: [Violation] = []
    package private(set) var totals = SimulationCounts()
    private(set) var model: WorldModel
    private(set) var arbiter: Arbiter
    /// A line for each event and effect, if the run is verbose.
    package private(set) var transcript: [String] = []
    private let isVerbose: Bool
    private let injectFault: FaultInjection?
    private var makers: [ClaimID: Party] = [:]
    private var checkers: [any Checker] = [
        GrantChecker(), WaitChecker(), QueueChecker(), DeadlockChecker(), NameViewChecker(),
    ]

    package init(bounds: Bounds, isVerbose: Bool = false, injectFault: FaultInjection? = nil) {
        self.injectFault = injectFault
        model = WorldModel(bounds: bounds)
        arbiter = Arbiter(bounds: bounds)
        self.isVerbose = isVerbose
    }

    /// Carries out a step, and returns the effects of the arbiter in their order.
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

    /// Returns the party that made a claim; `nobody` if the claim's step contains no party.
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

    /// Checks the end of a run: the arbiter must have no record of a program or directory left.
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
