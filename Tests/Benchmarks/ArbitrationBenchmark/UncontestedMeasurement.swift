// SPDX-License-Identifier: Apache-2.0

/// Measures a claim on an item that no other claim wants, until it has ended. Most claims of real programs are of this kind.
enum UncontestedMeasurement {
    private static let operations = 10_000
    /// The number of slices in each round. Other programs can halve the speed of a processor for a second, so each slice is
    /// short.
    private static let slices = 20

    static func measure(rounds: Int) throws {
        var worlds: [(name: String, world: EngineFixture, figures: RoundTimings)] = []
        for (tree, depth) in [("flat", 1), ("8 deep", 8)] {
            for elsewhere in [0, 1_000, 100_000] {
                let world = try EngineFixture(elsewhere: elsewhere, depth: depth)
                worlds.append(
                    ("\(tree), \(elsewhere) presenters and claims elsewhere", world, RoundTimings()))
            }
        }
        for _ in 0..<rounds {
            for (index, cost) in round(worlds.map(\.world)).enumerated() {
                worlds[index].figures.add(cost, for: operations * slices)
            }
        }
        print("One uncontested claim and its end, processor time: median [least..most] of \(rounds) rounds")
        for (name, _, figures) in worlds {
            line("  " + name, "\(figures.text), \(figures.ratio(to: worlds[0].figures)) of the first")
        }
    }

    /// Measures all fixtures in turn, in small slices. So if the machine becomes slow, all fixtures become slow by the same
    /// factor.
    private static func round(_ worlds: [EngineFixture]) -> [UInt64] {
        var costs = [UInt64](repeating: 0, count: worlds.count)
        for _ in 0..<slices {
            for (index, world) in worlds.enumerated() {
                world.claimAndEnd(times: operations / 10)
                costs[index] += RoundTimings.cost { world.claimAndEnd(times: operations) }
            }
        }
        return costs
    }
}
