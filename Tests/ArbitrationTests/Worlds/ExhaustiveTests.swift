// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

/// Plays every possible run of small simulations, called worlds, and compares the arbiter with the naive arbiter after each
/// step.
///
/// If `TRUCE_WORLDS=all` is set, each run has one step more. Then there are a million runs, otherwise a hundred thousand.
/// Scripts/test --all and Scripts/mutate set this variable.
@Suite("All orders of events in small simulations, compared with a simpler arbiter")
struct ExhaustiveTests {
    private static var isLong: Bool { Lab.isLong }

    @Test(
        "in each run of a small simulation, the arbiter has the same effects as a simpler arbiter",
        arguments: Menu.all)
    func inAllSmallSimulationsTheArbiterHasTheSameEffectsAsASimplerArbiter(menu: Menu) {
        var exploration = Exploration(menu)
        exploration.explore(depth: menu.depth - (Self.isLong ? 0 : 1))
        print("\(menu.name): \(exploration.runs) runs, \(exploration.steps) steps")
        #expect(exploration.runs > (Self.isLong ? 1_000 : 100))
        #expect(exploration.disagreements.values.sorted() == [])
    }
}

extension Menu: CustomTestStringConvertible {
    var testDescription: String { name }
}
