// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// Generates a simulated world from a seed: the actions of programs, editors and users, in virtual time.
///
/// The generator reports only events that a file system could report, and reads the current state from the model. Each action
/// in the world is a step. So a test can run the same world a second time without some of its steps.
package struct WorldGenerator: Sendable {
    /// An action that is scheduled for a later moment.
    enum ScheduledAction: Sendable {
        case identify(ClaimID)
        case reportObservation(ClaimID)
        case answer(QuestionID, PresenterID, Answer)
        case progress(QuestionID)
        case save(QuestionID, PresenterID)
        case leave(PresenterID)
        case finish(ClaimID)
        case withdraw(ClaimID)
        case nest(ClaimID)
        case fill(ItemID, Party, pendingSave: ClaimID)
    }

    /// What a claim's program does after the grant.
    enum Plan: Sendable {
        /// The program uses the item for a while, and ends the claim.
        case use
        /// The program carries out the changes of all parts, and ends the claim.
        case act
        /// The program removes a name in the middle of a save.
        case vacate(ItemID)
        /// The program puts a new file under the name that it removed in a save.
        case fill(ItemID, ClaimID)
        /// The presenter's program saves, and then answers the question.
        case answer(QuestionID, PresenterID)
        /// The program makes further accesses of the same purpose while it holds the claim.
        case prepare
    }

    struct AgendaEntry: Sendable {
        let moment: Instant
        let action: ScheduledAction
    }

    /// How a presenter behaves when it is asked.
    enum PresenterBehavior: Sendable, CaseIterable {
        case good, brisk, slow, silent, failing, working, dying, lying, saving
    }

    package private(set) var simulationRun: SimulationRun
    package private(set) var steps: [SimulationStep] = []
    package let bounds: Bounds
    package let seed: UInt64
    var chance: SeededRandom
    var population: ProgramPopulation
    var tree = ModelTree()
    var agenda: [AgendaEntry] = []
    var plans: [ClaimID: Plan] = [:]
    var makers: [ClaimID: Party] = [:]
    var habits: [PresenterID: PresenterBehavior] = [:]
    var deletedItems: [ItemID: Place] = [:]
    var directoriesToForget: [ItemID] = []
    var stamps: [ClaimID: UInt64] = [:]
    var lastClaim: UInt64 = 0
    var lastPresenter: UInt64 = 0
    /// The percentage of programs' claims that are not identified as soon as the arbiter asks.
    let shyness: Int
    private let length: Int
    let families: Int
    private let onStep: (@Sendable (SimulationStep) -> Void)?

    package init(
        seed: UInt64, isBrief: Bool = false, injectFault: FaultInjection? = nil,
        onStep: (@Sendable (SimulationStep) -> Void)? = nil
    ) {
        var chance = SeededRandom(seed)
        // Every fiftieth simulation is large: it has more steps and more programs.
        let isLarge = seed % 50 == 0 && !isBrief
        length = isLarge ? 500 : isBrief ? 15 + chance.below(25) : 30 + chance.below(80)
        families = isLarge ? 120 + chance.below(100) : 2 + chance.below(14)
        shyness = chance.one(of: [0, 10, 40]) ?? 0
        bounds = Self.bounds(&chance)
        population = ProgramPopulation(families: families, &chance)
        self.seed = seed
        self.chance = chance
        self.onStep = onStep
        simulationRun = SimulationRun(bounds: bounds, injectFault: injectFault)
    }

    private static func bounds(_ chance: inout SeededRandom) -> Bounds {
        var bounds = Bounds()
        func span(_ range: ClosedRange<Int>) -> TimeSpan {
            .milliseconds(chance.milliseconds(range) / 50 * 50)
        }
        bounds.wait = span(500...6_000)
        bounds.hold = span(300...4_000)
        bounds.holdAware = span(500...6_000)
        bounds.idle = span(300...1_000)
        bounds.readerIdle = span(250...600)
        bounds.relinquish = span(200...2_000)
        bounds.save = span(300...3_000)
        bounds.deletion = span(200...2_000)
        bounds.progress = span(2_000...10_000)
        bounds.askAgain = chance.isLucky(50) ? .zero : span(500...2_000)
        bounds.excused = span(100...2_000)
        bounds.policy = chance.isLucky(35) ? .fail : .proceed
        return bounds
    }

    var model: WorldModel { simulationRun.model }
    var now: Instant { simulationRun.model.now }
    package var findings: [Violation] { simulationRun.findings }

    /// Runs the whole simulation, to its end or to the first violation.
    package mutating func play() {
        settleLand()
        for _ in 0..<length where findings.isEmpty { act() }
        if findings.isEmpty { end() }
    }

    // MARK: Carrying out steps and scheduled actions

    mutating func perform(_ step: SimulationStep) {
        guard findings.isEmpty else { return }
        steps.append(step)
        onStep?(step)
        let effects = simulationRun.perform(step)
        for effect in effects { react(to: effect) }
    }

    mutating func tell(_ event: ArbiterEvent) { perform(.event(event)) }

    mutating func schedule(_ action: ScheduledAction, in milliseconds: UInt64) {
        let moment = now + .milliseconds(milliseconds)
        let index = agenda.firstIndex { $0.moment > moment } ?? agenda.count
        agenda.insert(AgendaEntry(moment: moment, action: action), at: index)
    }

    /// Advances the time by a span and carries out all actions that are due within it.
    mutating func pass(_ span: TimeSpan) {
        let end = now + span
        while findings.isEmpty {
            doWhatIsDue()
            let moments = [agenda.first?.moment, simulationRun.model.wake].compactMap { $0 }
            guard let next = moments.min(), next <= end else { break }
            perform(.advance(next.since(now)))
        }
        if findings.isEmpty, end > now { perform(.advance(end.since(now))) }
    }

    mutating func doWhatIsDue() {
        while let next = agenda.first, next.moment <= now, findings.isEmpty {
            agenda.removeFirst()
            run(next.action)
        }
    }

    // MARK: The beginning and the end of the simulation

    private mutating func settleLand() {
        tell(.placed(ModelTree.root, DirectoryInfo(in: nil)))
        let size = 2 + min(families, 60) / 2
        for _ in 0..<size { makeDirectory() }
        for _ in 0..<(size + chance.below(4)) { addFile() }
        for _ in 0..<chance.below(3) { addHardLink() }
        for _ in 0..<(1 + chance.below(2)) { addLink() }
        for _ in 0..<(1 + chance.below(4)) { present() }
    }

    /// Ends all programs, and checks that the arbiter has no records left.
    private mutating func end() {
        // From here on only time passes, so presenters answer, holders end, and waiting claims reach their limits.
        for _ in 0..<4 {
            for claim in simulationRun.model.held { finish(claim.id) }
            pass(.seconds(25))
        }
        for claim in simulationRun.model.held { finish(claim.id) }
        pass(.seconds(5))
        for presenter in simulationRun.model.presenterModels.keys.sorted() { tell(.removed(presenter)) }
        pass(.seconds(1))
        // The arbiter never cancels a wake, so the run continues until the last wake that the arbiter has asked for.
        if let last = simulationRun.model.wakes.last, last > now { pass(last.since(now)) }
        for directory in simulationRun.model.directories.keys.sorted(by: {
            tree.depth(of: $0) > tree.depth(of: $1)
        })
        where tree.nodes[directory] == nil {
            forgetIfUnused(directory)
        }
        while let directory = simulationRun.model.directories.keys.sorted().first(where: { candidate in
            !simulationRun.model.directories.values.contains { $0.parent == candidate }
        }), findings.isEmpty {
            tell(.forgotten(directory))
        }
        if findings.isEmpty { simulationRun.checkEnd() }
    }
}
