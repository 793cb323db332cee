// SPDX-License-Identifier: Apache-2.0
import ArbitrationSimulation
import Coordination
import Testing

/// Whole worlds in virtual time, with checkers beside them; Scripts/simulate plays many more.
@Suite("Simulation")
struct SimulationTests {
    static let seeds = 1...100 as ClosedRange<UInt64>

    @Test("every promise is kept in every world, and each kind of thing happens")
    func worlds() {
        var totals = Totals()
        for seed in Self.seeds {
            var player = Player(seed: seed, isBrief: true)
            player.play()
            totals.add(player.performance.totals)
            guard let finding = player.findings.first else { continue }
            var shrinking = Shrinking(bounds: player.bounds, checker: finding.checker, tries: 500)
            let steps = shrinking.shrink(player.steps)
            let scenario = ([Command.text(player.bounds)] + steps.map(Command.text)).joined(separator: "\n")
            Issue.record("seed \(seed): \(finding)\n\(scenario)")
            return
        }
        print("simulated worlds, seeds \(Self.seeds):\n\(totals)")
        // A world in which hardly anything happens shows nothing.
        for kind in Self.kinds { #expect(totals[kind] > 0, "\(kind) never happened") }
    }

    /// What these worlds must have seen at least once.
    static let kinds = [
        "deadlock: passes", "deadlock: suspends", "deadlock: refuses", "demotion", "forfeit",
        "claim: batch", "claim: episode", "claim: nameChange", "claim: aware", "claim of many parts",
        "claim within another", "claim made to answer", "claim through a symbolic link",
        "claim by a hard link", "grant in a package", "grant over others", "grant over presenters",
        "grant: proceeded", "refuse: busy", "refuse: withdrawn", "refuse: presenterFailed",
        "refuse: deadlock", "retarget", "suspend: yielded", "suspend: stoodStill", "suspend: idle",
        "suspend: held", "suspend: deadlocked", "ask: save", "ask: accommodateDeletion",
        "ask: accommodateSubitemDeletion", "tell: subitemDidAppear", "tell: subitemDidChange",
        "tell: subitemDidMove", "tell: didMove", "tell: didChange", "tell: reacquire",
        "presenter shown later", "presenter of nothing yet", "presenter of package", "presenter of folder",
        "fact: package mark changed", "fact: directory moved", "fact: directory forgotten",
        "fact: relinked", "fact: replaced", "fact: lost", "fact: late tick", "fact: progress",
        "answer: late, twice or to nothing",
    ]

    /// What an arbiter with a fault would say, and which checker must complain of it.
    static let faults: [(name: String, checker: String, distort: Distortion)] = [
        (
            "nobody hears of changes", "NoticeChecker",
            { if case .tell(let notice) = $0, notice.kind == .didChange { [] } else { [$0] } }
        ),
        (
            "nobody hears of what is in a folder", "NoticeChecker",
            { if case .tell(let notice) = $0, notice.subitem != nil { [] } else { [$0] } }
        ),
        ("all is told twice", "TurnChecker", { if case .tell = $0 { [$0, $0] } else { [$0] } }),
        (
            "nobody is let in again", "TurnChecker",
            { if case .tell(let notice) = $0, notice.kind == .reacquire { [] } else { [$0] } }
        ),
        ("questions are not forfeited", "QuestionChecker", { if case .forfeit = $0 { [] } else { [$0] } }),
        (
            "whoever is asked about is granted unasked", "ConsentChecker",
            { effect in
                guard case .identify(let claim) = effect else { return [effect] }
                return [effect, .grant(claim, Grant(basis: .waited))]
            }
        ),
        ("waits do not run out", "WaitChecker", { if case .refuse(_, .busy) = $0 { [] } else { [$0] } }),
        (
            "those who wait are forgotten", "QueueChecker",
            { if case .grant(_, let grant) = $0, grant.basis == .waited { [] } else { [$0] } }
        ),
        (
            "who is gone over is not listed", "GrantChecker",
            { effect in
                guard case .grant(let claim, let grant) = effect else { return [effect] }
                return [.grant(claim, Grant(basis: grant.basis, unanswered: grant.unanswered))]
            }
        ),
        (
            "who did not agree is not listed", "ConsentChecker",
            { effect in
                guard case .grant(let claim, let grant) = effect else { return [effect] }
                return [.grant(claim, Grant(basis: grant.basis, passed: grant.passed))]
            }
        ),
        (
            "nobody is suspended by time", "LookChecker",
            { if case .suspend(_, .held) = $0 { [] } else { [$0] } }
        ),
        (
            "everybody is asked about twice", "LookChecker",
            { if case .identify = $0 { [$0, $0] } else { [$0] } }
        ),
        (
            "cycles are told backwards", "DeadlockChecker",
            { effect in
                guard case .deadlock(let told) = effect else { return [effect] }
                return [.deadlock(Deadlock(cycle: told.cycle.reversed(), told.way, told.claim))]
            }
        ),
        (
            "whoever waits is granted", "GrantChecker",
            { effect in
                guard case .identify(let claim) = effect else { return [effect] }
                return [effect, .grant(claim, Grant(basis: .waited))]
            }
        ),
    ]

    @Test("each checker complains of a fault", arguments: faults.indices)
    func faulty(index: Int) {
        let fault = Self.faults[index]
        for seed in Self.seeds {
            var player = Player(seed: seed, isBrief: true, distort: fault.distort)
            player.play()
            if player.findings.contains(where: { $0.checker == fault.checker }) { return }
        }
        Issue.record("\(fault.name), and the \(fault.checker) does not complain")
    }

    @Test("a failing world is shortened to what matters, and still fails")
    func shortening() throws {
        let fault = Self.faults[0]
        var player = Player(seed: 3, isBrief: true, distort: fault.distort)
        player.play()
        let finding = try #require(player.findings.first)
        var shrinking = Shrinking(
            bounds: player.bounds, checker: finding.checker, tries: 300, distort: fault.distort)
        let steps = shrinking.shrink(player.steps)
        #expect(steps.count < player.steps.count / 2)
        var performance = Performance(bounds: player.bounds, distort: fault.distort)
        for step in steps { performance.perform(step) }
        #expect(performance.findings.first?.checker == finding.checker)
        // The scenario language has words for every step.
        var world = World()
        for step in steps { #expect(world.run(Command.text(step)) != "cannot read this command") }
    }
}
