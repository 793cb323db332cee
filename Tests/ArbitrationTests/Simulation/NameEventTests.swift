// SPDX-License-Identifier: Apache-2.0
import ArbitrationSimulation
import Coordination
import Testing

/// Rules N5, N7, N8, N10, N11, N13, P26: in simulations generated from seeds, files appear, disappear and exchange their names.
@Suite("Names that appear, disappear and are exchanged")
struct NameEventTests {
    private static let seeds = 1...2000 as ClosedRange<UInt64>

    @Test("after the last event, each presenter knows the names that exist")
    func presentersKnowTheExistingNamesAfterTheLastEvent() {
        for seed in Self.seeds {
            var player = NameWorldGenerator(seed: seed)
            player.play(acts: 30)
            guard let finding = player.findings.first else { continue }
            var shrinking = FailureShrinker(
                bounds: NameWorldGenerator.bounds, checker: finding.checker, tries: 2000)
            let steps = shrinking.shrink(player.steps)
            var short = SimulationRun(bounds: NameWorldGenerator.bounds, isVerbose: true)
            for step in steps { short.perform(step) }
            Issue.record("seed \(seed): \(finding)\n\(short.transcript.joined(separator: "\n"))")
            return
        }
    }

    @Test("the arbiter has the same effects as a simpler arbiter that the tests contain")
    func theArbiterHasTheSameEffectsAsASimplerArbiter() {
        for seed in Self.seeds {
            var player = NameWorldGenerator(seed: seed)
            player.play(acts: 30)
            var comparison = Comparison(bounds: NameWorldGenerator.bounds)
            for step in player.steps {
                guard let disagreement = comparison.take(step) else { continue }
                Issue.record("seed \(seed): \(disagreement)")
                return
            }
        }
    }
}

extension Comparison {
    fileprivate mutating func take(_ step: ArbitrationSimulation.SimulationStep) -> String? {
        switch step {
        case .claim(let request, let party): return claim(request, by: party)
        case .event(let event): return tell(event)
        case .advance(let span), .late(let span):
            pass(span)
            return tell(.tick)
        }
    }
}
