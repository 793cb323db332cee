// SPDX-License-Identifier: Apache-2.0

/// One claim that nobody else is near, and its end: nearly all that ever happens.
enum Uncontested {
    private static let operations = 200_000

    static func measure(rounds: Int) throws {
        var worlds: [(name: String, world: World, figures: Figures)] = []
        for (tree, depth) in [("flat", 1), ("8 deep", 8)] {
            for elsewhere in [0, 1_000, 100_000] {
                let world = try World(elsewhere: elsewhere, depth: depth)
                worlds.append(("\(tree), \(elsewhere) presenters and claims elsewhere", world, Figures()))
            }
        }
        // In turn, so that whatever slows the machine down slows all of them.
        for _ in 0..<rounds {
            for index in worlds.indices {
                let world = worlds[index].world
                world.claimAndEnd(times: operations / 10)
                worlds[index].figures.add(
                    Figures.cost { world.claimAndEnd(times: operations) }, for: operations)
            }
        }
        print("One uncontested claim and its end, processor time: median [least..most] of \(rounds) rounds")
        for (name, _, figures) in worlds {
            let ratio = (figures.median / worlds[0].figures.median * 100).rounded() / 100
            line("  " + name, "\(figures.text), \(ratio) of the first")
        }
    }
}
