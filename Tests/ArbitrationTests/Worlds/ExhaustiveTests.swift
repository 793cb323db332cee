// SPDX-License-Identifier: Apache-2.0
import Testing

/// Every run of small worlds, compared step by step with the naive arbiter.
@Suite("Exhaustive", .serialized)
struct ExhaustiveTests {
    @Test("the arbiter agrees with the naive one in every run, and there are a million of them")
    func agreesInAllSmallWorlds() {
        var runs = 0
        for menu in Menu.all {
            var exploration = Exploration(menu)
            exploration.explore()
            print("\(menu.name): \(exploration.runs) runs, \(exploration.steps) steps")
            runs += exploration.runs
            #expect(exploration.runs > 1_000, "\(menu.name)")
            #expect(
                exploration.disagreements.isEmpty,
                "\(menu.name)\n\(exploration.disagreements.values.joined(separator: "\n"))")
        }
        print("\(runs) runs in \(Menu.all.count) worlds")
        #expect(runs >= 1_000_000)
    }
}
