// SPDX-License-Identifier: Apache-2.0
import Coordination
import Glibc
import Testing

/// Compares the arbiter and the naive arbiter in random runs. The runs are so long that not all of them can be played.
@Suite("Random simulations of the arbiter, compared with a simpler arbiter")
struct DifferentialTests {
    /// The environment variable `TRUCE_WORLDS` sets another number of runs, for a long search.
    static let seeds: ClosedRange<UInt64> =
        1...max(1, getenv("TRUCE_WORLDS").flatMap { UInt64(String(cString: $0)) } ?? 5_000)
    static let lowLimitSeeds: UInt64 = 1_500

    @Test("in random simulations, the arbiter has the same effects as a simpler arbiter")
    func inRandomSimulationsTheArbiterHasTheSameEffectsAsASimplerArbiter() {
        print("random runs of 60 steps, seeds \(Self.seeds)")
        for seed in Self.seeds {
            var world = RandomWorld(seed: seed)
            if let disagreement = world.play(steps: 60) {
                Issue.record("seed \(seed)\n\(disagreement)")
                return
            }
        }
    }

    /// Rules D5, Q5, G5 and Y11: in these runs the work limits are so low that two programs or two claims already exceed them.
    @Test("in random simulations with low work limits, the arbiter has the same effects as a simpler arbiter")
    func underLowWorkLimitsTheArbiterHasTheSameEffectsAsASimplerArbiter() {
        var limits = WorkLimits()
        (limits.programs, limits.preempted) = (1, 1)
        for seed in 1...Self.lowLimitSeeds {
            (limits.holders, limits.queue) = (1 + Int(seed % 3), 1 + Int(seed / 3 % 2))
            var world = RandomWorld(seed: seed, limits: limits)
            if let disagreement = world.play(steps: 60) {
                Issue.record("seed \(seed)\n\(disagreement)")
                return
            }
        }
    }
}
