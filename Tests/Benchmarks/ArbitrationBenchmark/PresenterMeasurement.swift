// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine

/// Measures a hundred thousand presenters: their registration, their removal, and the move of a folder that contains all of
/// them.
enum PresenterMeasurement {
    private static let presenters = 100_000

    static func measure(rounds: Int) throws {
        var (coming, moving, telling, going) = (
            RoundTimings(), RoundTimings(), RoundTimings(), RoundTimings()
        )
        for _ in 0..<rounds {
            var bounds = EngineFixture.patient
            bounds.trailing = .milliseconds(1)
            bounds.steps = .milliseconds(1)
            let world = try EngineFixture(elsewhere: 0, depth: 1, bounds: bounds)
            let folder = world.makeDirectory(depth: 1)
            let places = places(in: folder, of: world)
            let party = BenchmarkClaimant(500).party
            var registered: [PresenterID] = []
            coming.add(
                RoundTimings.cost {
                    registered = places.map { place in
                        world.engine.present(
                            Document(world.makeItem(), place), by: party, implementing: .didMove,
                            in: world.mailbox)
                    }
                }, for: presenters)
            let elsewhere = world.makeDirectory(depth: 1)
            let move = Move(from: Place(in: ItemID(1)), to: Place(in: elsewhere))
            let moved = RoundTimings.cost {
                world.engine.noteMove(of: folder, move, by: BenchmarkClaimant(600).party)
            }
            moving.add(moved, for: 1)
            var told = 0
            let waited = RoundTimings.time {
                while told < presenters { told += world.mailbox.take().count }
            }
            telling.add(moved + waited, for: 1)
            precondition(told == presenters, "each is told once")
            going.add(RoundTimings.cost { for id in registered { world.engine.remove(id) } }, for: presenters)
            precondition(!world.engine.hasAwareClients, "all are gone")
        }
        print("\(presenters) presenters below a folder: median [least..most] of \(rounds) rounds")
        line("  to register one", coming.text)
        line("  to move the folder", moving.text)
        line("  until all are told of that, 1 ms of waiting included", telling.text)
        line("  to remove one", going.text)
    }

    /// Returns places in directories four levels below the folder, a hundred places in each directory.
    private static func places(in folder: ItemID, of world: EngineFixture) -> [Place] {
        var directory = folder
        return (0..<presenters).map { number in
            if number % EngineFixture.itemsInDirectory == 0 {
                directory = folder
                for _ in 0..<4 {
                    let next = world.makeItem()
                    world.engine.place(next, DirectoryInfo(in: directory))
                    directory = next
                }
            }
            return Place(in: directory)
        }
    }
}
