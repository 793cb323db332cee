// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine

/// Ten thousand who want one item.
enum Contended {
    private static let waiters = 10_000

    static func measure(rounds: Int) throws {
        print("\(waiters) writers on one item: median [least..most] of \(rounds) rounds, for one of them")
        try measure("different processes", rounds) { StandIn(Int32($0) + 1000) }
        try measure("threads of one process", rounds) { StandIn(1000, thread: Int32($0) + 1000) }
    }

    private static func measure(
        _ name: String, _ rounds: Int, _ program: (Int) -> StandIn
    ) throws {
        var (arriving, handingOver) = (Figures(), Figures())
        for _ in 0..<rounds {
            let world = try World(elsewhere: 0, depth: 8)
            let (item, ended) = (world.makeItem(), Tally())
            let holder = world.claim(item, world.place, .write(.updating), by: StandIn(999))
            let programs = (0..<waiters).map(program)
            let arrival = Figures.cost {
                for program in programs { wait(for: item, program, in: world, ended) }
            }
            arriving.add(arrival, for: waiters)
            precondition(ended.count == 0, "nobody has had a turn")
            handingOver.add(Figures.cost { world.engine.end(holder) }, for: waiters)
            precondition(ended.count == waiters, "everybody has had a turn")
        }
        line("  \(name), to arrive and be identified", arriving.text)
        line("  \(name), to be granted, told, and to end", handingOver.text)
    }

    /// Ends as soon as it is granted.
    private static func wait(for item: ItemID, _ program: StandIn, in world: World, _ ended: Tally) {
        let engine = world.engine
        let claim = engine.makeClaimID()
        let part = Request.Part(item, .write(.updating), at: world.place)
        guard case .waiting = engine.claim(Request(claim, .handle, part), by: program) else {
            preconditionFailure("somebody holds the item")
        }
        engine.whenSettled(claim) { _ in
            engine.end(claim)
            ended.add()
        }
    }
}
