// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine

/// A hundred thousand presenters: their coming and going, and the move of a folder that all of them are in.
enum Presenting {
    private static let presenters = 100_000

    static func measure(rounds: Int) throws {
        var (coming, moving, telling, going) = (Figures(), Figures(), Figures(), Figures())
        for _ in 0..<rounds {
            var bounds = World.patient
            bounds.trailing = .milliseconds(1)
            bounds.steps = .milliseconds(1)
            let world = try World(elsewhere: 0, depth: 1, bounds: bounds)
            let folder = world.makeDirectory(depth: 1)
            let places = places(in: folder, of: world)
            let party = StandIn(500).party
            var registered: [PresenterID] = []
            coming.add(
                Figures.cost {
                    registered = places.map { place in
                        world.engine.present(
                            Document(world.makeItem(), place), by: party, implementing: .didMove,
                            in: world.mailbox)
                    }
                }, for: presenters)
            let elsewhere = world.makeDirectory(depth: 1)
            let move = Move(from: Place(in: ItemID(1)), to: Place(in: elsewhere))
            let moved = Figures.cost {
                world.engine.noteMove(of: folder, move, by: StandIn(600).party)
            }
            moving.add(moved, for: 1)
            var told = 0
            let waited = Figures.time {
                while told < presenters { told += world.mailbox.take().count }
            }
            telling.add(moved + waited, for: 1)
            precondition(told == presenters, "each is told once")
            going.add(Figures.cost { for id in registered { world.engine.remove(id) } }, for: presenters)
            precondition(!world.engine.isAttended, "all are gone")
        }
        print("\(presenters) presenters below a folder: median [least..most] of \(rounds) rounds")
        line("  to register one", coming.text)
        line("  to move the folder", moving.text)
        line("  until all are told of that, 1 ms of waiting included", telling.text)
        line("  to remove one", going.text)
    }

    /// A hundred in each directory, four levels below the folder.
    private static func places(in folder: ItemID, of world: World) -> [Place] {
        var directory = folder
        return (0..<presenters).map { number in
            if number % World.itemsInDirectory == 0 {
                directory = folder
                for _ in 0..<4 {
                    let next = world.makeItem()
                    world.engine.place(next, Directory(in: directory))
                    directory = next
                }
            }
            return Place(in: directory)
        }
    }
}
