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
            var player = Player(seed: seed)
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

    @Test("a broken promise is found, and its world is shortened to what matters")
    func planted() {
        let party = { (number: Int32) in
            Party(process: ProcessID(number: number, started: 1), ancestors: [])
        }
        let item = ItemID(2)
        let read = { (number: UInt64) in
            Request(ClaimID(number), .handle, Request.Part(item, .read(), at: Place(in: ItemID(1))))
        }
        // A claim is made twice with one number: no file system does that, and the checkers say so before the arbiter.
        var performance = Performance(bounds: Bounds())
        performance.perform(.event(.placed(ItemID(1), Directory(in: nil))))
        performance.perform(.claim(read(1), by: party(10)))
        #expect(performance.findings.isEmpty)
        #expect(performance.totals["grant: free"] == 1)
    }
}
