// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine

/// Measures ten thousand claims that want the same item.
enum ContentionMeasurement {
    private static let waiters = 10_000

    static func measure(rounds: Int) throws {
        print("\(waiters) writers on one item: median [least..most] of \(rounds) rounds, for one of them")
        try measure("different processes", rounds) { BenchmarkClaimant(Int32($0) + 1000) }
        try measure("threads of one process", rounds) { BenchmarkClaimant(1000, thread: Int32($0) + 1000) }
    }

    private static func measure(
        _ name: String, _ rounds: Int, _ program: (Int) -> BenchmarkClaimant
    ) throws {
        var (arriving, handingOver) = (RoundTimings(), RoundTimings())
        for _ in 0..<rounds {
            let world = try EngineFixture(elsewhere: 0, depth: 8)
            let (item, ended) = (world.makeItem(), AtomicCounter())
            let holder = world.claim(item, world.place, .write(.updating), by: BenchmarkClaimant(999))
            let programs = (0..<waiters).map(program)
            let arrival = RoundTimings.cost {
                for program in programs { wait(for: item, program, in: world, ended) }
            }
            arriving.add(arrival, for: waiters)
            precondition(ended.count == 0, "no access has begun")
            handingOver.add(RoundTimings.cost { world.engine.end(holder) }, for: waiters)
            precondition(ended.count == waiters, "everybody has had a turn")
        }
        line("  \(name), to arrive and be identified", arriving.text)
        line("  \(name), to be granted, told, and to end", handingOver.text)
    }

    /// Makes a claim that waits, and that ends as soon as it is granted.
    private static func wait(
        for item: ItemID, _ program: BenchmarkClaimant, in world: EngineFixture, _ ended: AtomicCounter
    ) {
        let engine = world.engine
        let claim = engine.makeClaimID()
        let part = ClaimRequest.Part(item, .write(.updating), at: world.place)
        guard case .waiting = engine.claim(ClaimRequest(claim, .handle, part), by: program) else {
            preconditionFailure("another claim holds the item")
        }
        engine.onDecision(claim) { _ in
            engine.end(claim)
            ended.add()
        }
    }
}
