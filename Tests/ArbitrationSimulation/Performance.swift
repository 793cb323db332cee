// SPDX-License-Identifier: Apache-2.0
import Arbitration
package import Coordination

/// One promise that was not kept.
package struct Finding: Hashable, Sendable, CustomStringConvertible {
    /// Which checker says so.
    package let checker: String
    package let what: String
    package let moment: Instant
    package var description: String { "\(moment): \(checker): \(what)" }
}

/// What a checker has found in the event at hand.
struct Report {
    var found: [String] = []
    mutating func blame(_ what: String) { found.append(what) }
}

/// One promise, checked from outside: it sees each event, each effect and what the ledger says.
protocol Checker: Sendable {
    /// After the event has been noted, before its effects.
    mutating func hear(_ event: Event, _ ledger: Ledger, _ report: inout Report)
    /// Before the effect is noted.
    mutating func see(_ effect: Effect, of event: Event, _ ledger: Ledger, _ report: inout Report)
    /// When all effects of an event have been noted.
    mutating func rest(after event: Event, _ ledger: Ledger, _ report: inout Report)
}

extension Checker {
    mutating func hear(_ event: Event, _ ledger: Ledger, _ report: inout Report) {}
    mutating func see(_ effect: Effect, of event: Event, _ ledger: Ledger, _ report: inout Report) {}
    mutating func rest(after event: Event, _ ledger: Ledger, _ report: inout Report) {}
}

/// What becomes of an effect before anybody sees it: so it is shown that the checkers can complain.
package typealias Distortion = @Sendable (Effect) -> [Effect]

/// Steps told to an arbiter, in virtual time, with the checkers beside it.
///
/// The same steps give the same performance: whatever is random is decided by whoever makes the steps.
package struct Performance: Sendable {
    package private(set) var findings: [Finding] = []
    package private(set) var totals = Totals()
    private(set) var ledger: Ledger
    private(set) var arbiter: Arbiter
    /// Everything that was said, if somebody wants to read it.
    package private(set) var story: [String] = []
    private let isTold: Bool
    private let distort: Distortion?
    private var makers: [ClaimID: Party] = [:]
    private var checkers: [any Checker] = [
        GrantChecker(), WaitChecker(), QueueChecker(), LookChecker(), DeadlockChecker(), QuestionChecker(),
        ConsentChecker(), TurnChecker(), NoticeChecker(), BeliefChecker(),
    ]

    package init(bounds: Bounds, isTold: Bool = false, distort: Distortion? = nil) {
        self.distort = distort
        ledger = Ledger(bounds: bounds)
        arbiter = Arbiter(bounds: bounds)
        self.isTold = isTold
    }

    /// What the arbiter did, in order.
    @discardableResult
    package mutating func perform(_ step: Step) -> [Effect] {
        var effects: [Effect] = []
        switch step {
        case .claim(let request, let party):
            if let party { makers[request.claim] = party }
            tell(.claimed(request), &effects)
            if request.nature == .episode, let party { tell(.identified(request.claim, party), &effects) }
        case .event(let event): tell(event, &effects)
        case .advance(let span):
            let end = ledger.now + span
            while let moment = ledger.wake, moment <= end {
                ledger.now = max(moment, ledger.now)
                tell(.tick, &effects)
            }
            ledger.now = end
        case .late(let span):
            ledger.now = ledger.now + span
            tell(.tick, &effects)
        }
        return effects
    }

    /// Who made a claim, as scenario files know it: only if it was said beforehand.
    func maker(of claim: ClaimID) -> Party { makers[claim] ?? .nobody }

    private mutating func tell(_ event: Event, _ all: inout [Effect]) {
        if isTold { story.append("\(ledger.now): \(Command.text(.event(event)))") }
        totals.count(event, ledger)
        var report = Report()
        ledger.note(event, at: ledger.now)
        for index in checkers.indices { hear(index, event, &report) }
        var effects: [Effect] = []
        arbiter.handle(event, at: ledger.now, into: &effects)
        if let distort { effects = effects.flatMap(distort) }
        for effect in effects {
            if isTold { story.append("        \(describe(effect))") }
            totals.count(effect, ledger)
            for index in checkers.indices { see(index, effect, event, &report) }
            ledger.note(effect)
        }
        for index in checkers.indices { rest(index, event, &report) }
        if ledger.isQuiet, !arbiter.isAtRest {
            blame("RestChecker", "all is over, and the arbiter remembers something")
        }
        all += effects
        for case .identify(let claim) in effects {
            if let party = makers[claim] { tell(.identified(claim, party), &all) }
        }
    }

    /// When everybody has left and every directory is forgotten.
    package mutating func checkEnd() {
        if !ledger.isQuiet { blame("RestChecker", "something is going on when all is over") }
        if arbiter.remembered > 0 {
            blame("RestChecker", "\(arbiter.remembered) records are left when all is over")
        }
    }

    private mutating func blame(_ checker: String, _ what: String) {
        if findings.count < 5 { findings.append(Finding(checker: checker, what: what, moment: ledger.now)) }
        if isTold { story.append("!!! \(checker): \(what)") }
    }

    private mutating func collect(_ index: Int, _ report: inout Report) {
        guard !report.found.isEmpty else { return }
        for what in report.found { blame("\(type(of: checkers[index]))", what) }
        report.found = []
    }

    private mutating func hear(_ index: Int, _ event: Event, _ report: inout Report) {
        checkers[index].hear(event, ledger, &report)
        collect(index, &report)
    }

    private mutating func see(_ index: Int, _ effect: Effect, _ event: Event, _ report: inout Report) {
        checkers[index].see(effect, of: event, ledger, &report)
        collect(index, &report)
    }

    private mutating func rest(_ index: Int, _ event: Event, _ report: inout Report) {
        checkers[index].rest(after: event, ledger, &report)
        collect(index, &report)
    }
}
