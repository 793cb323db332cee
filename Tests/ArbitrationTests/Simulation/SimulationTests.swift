// SPDX-License-Identifier: Apache-2.0
import ArbitrationSimulation
import Coordination
import Testing

/// Plays simulated worlds in virtual time, with checkers of the rules. Scripts/simulate plays many more worlds.
@Suite("Simulated worlds with checkers")
struct SimulationTests {
    static let seeds = 1...200 as ClosedRange<UInt64>

    @Test("no checker reports a problem in a simulated world, and each kind of event happens")
    func noCheckerReportsAProblemInASimulatedWorld() {
        var totals = SimulationCounts()
        for seed in Self.seeds {
            var player = WorldGenerator(seed: seed, isBrief: true)
            player.play()
            totals.add(player.simulationRun.totals)
            guard let finding = player.findings.first else { continue }
            var shrinking = FailureShrinker(bounds: player.bounds, checker: finding.checker, tries: 500)
            let steps = shrinking.shrink(player.steps)
            let scenario = ([CommandWriter.text(player.bounds)] + steps.map(CommandWriter.text)).joined(
                separator: "\n")
            Issue.record("seed \(seed): \(finding)\n\(scenario)")
            return
        }
        print("simulated worlds, seeds \(Self.seeds):\n\(totals)")
        // If an event never happens in all these worlds, the checkers have not checked the rules about this event.
        for kind in Self.kinds { #expect(totals[kind] > 0, "\(kind) never happened") }
    }

    /// The kinds of events that must happen at least once in all worlds together.
    static let kinds = [
        "deadlock: passes", "deadlock: suspends", "deadlock: refuses", "demotion", "forfeit",
        "claim: batch", "claim: episode", "claim: nameChange", "claim: aware", "claim of many parts",
        "claim within another", "claim made to answer", "claim through a symbolic link",
        "claim by a hard link", "grant in a package", "grant over others", "grant over presenters",
        "grant: proceeded", "refuse: busy", "refuse: withdrawn", "refuse: presenterFailed",
        "refuse: deadlock", "retarget", "suspend: yielded", "suspend: stoodStill", "suspend: idle",
        "suspend: unchanged",
        "suspend: held", "suspend: deadlocked", "ask: save", "ask: accommodateDeletion",
        "ask: accommodateSubitemDeletion", "tell: subitemDidAppear", "tell: subitemDidChange",
        "tell: subitemDidMove", "tell: didMove", "tell: didChange", "tell: reacquire",
        "presenter shown later", "presenter of nothing yet", "presenter of package", "presenter of folder",
        "fact: package mark changed", "fact: directory moved", "fact: directory forgotten",
        "fact: relinked", "fact: replaced", "fact: lost", "fact: late tick", "fact: progress",
        "answer: late, twice or to nothing",
    ]

    @Test(
        "if a fault is injected into the arbiter, its checker reports the fault", arguments: ArbiterFault.all)
    func aCheckerReportsEachInjectedFault(fault: ArbiterFault) {
        var heard: Set<String> = []
        for seed in Self.seeds {
            var player = WorldGenerator(seed: seed, isBrief: true, injectFault: fault.injectFault)
            player.play()
            for finding in player.findings where finding.checker == fault.checker {
                if finding.what.contains(fault.problemText) { return }
                heard.insert(finding.what)
            }
        }
        Issue.record("\(fault), and the \(fault.checker) only says \(heard.sorted().prefix(5))")
    }

    @Test("a checker reports records that the arbiter still stores after a simulation")
    func aCheckerReportsRecordsThatTheArbiterStillStoresAfterASimulation() {
        var simulationRun = SimulationRun(bounds: Bounds())
        simulationRun.perform(.event(.placed(ItemID(1), DirectoryInfo(in: nil))))
        #expect(simulationRun.findings.isEmpty)
        simulationRun.checkEnd()
        #expect(simulationRun.findings.first?.checker == "RestChecker")
    }

    @Test("the shrinker removes half of a failing world's steps, and the world still fails")
    func aFailingWorldIsShortenedAndStillFails() throws {
        let fault = ArbiterFault.all[0]
        var player = WorldGenerator(seed: 3, isBrief: true, injectFault: fault.injectFault)
        player.play()
        let finding = try #require(player.findings.first)
        var shrinking = FailureShrinker(
            bounds: player.bounds, checker: finding.checker, tries: 300, injectFault: fault.injectFault)
        let steps = shrinking.shrink(player.steps)
        #expect(steps.count < player.steps.count / 2)
        var simulationRun = SimulationRun(bounds: player.bounds, injectFault: fault.injectFault)
        for step in steps { simulationRun.perform(step) }
        #expect(simulationRun.findings.first?.checker == finding.checker)
        // Checks that each step of the run can be written as a command of a scenario file.
        var world = ScenarioInterpreter()
        for step in steps { #expect(world.run(CommandWriter.text(step)) != "cannot read this command") }
    }
}
