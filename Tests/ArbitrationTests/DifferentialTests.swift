// SPDX-License-Identifier: Apache-2.0
import Testing

/// Runs longer than all of them could be played, drawn from seeds.
@Suite("Differential")
struct DifferentialTests {
    static let seeds: ClosedRange<UInt64> = 1...5_000

    @Test("the arbiter agrees with the naive one in worlds drawn from seeds")
    func agrees() {
        print("random runs of 60 steps, seeds \(Self.seeds)")
        for seed in Self.seeds {
            var world = RandomWorld(seed: seed)
            if let disagreement = world.play(steps: 60) {
                Issue.record("seed \(seed)\n\(disagreement)")
                return
            }
        }
    }
}
