// SPDX-License-Identifier: Apache-2.0
import CTestSupport
import Coordination
import CoordinationEngine

/// Measures how much heap memory a claim, a presenter and a directory use. For this it makes a hundred thousand of each.
enum Memory {
    private static let count = 100_000

    static func measure() throws {
        print("Memory, in bytes on the heap for each of \(count)")
        let world = try EngineFixture(elsewhere: 0, depth: 1)
        let (program, items) = (BenchmarkClaimant(7), (0..<count).map { _ in world.makeItem() })
        var claims: [ClaimID] = []
        claims.reserveCapacity(count)
        report("claim that is held, alone on its item") {
            for item in items { claims.append(world.claim(item, world.place, .read(), by: program)) }
        }
        for claim in claims { world.engine.end(claim) }
        let documents = items.map { Document($0, world.place) }
        var presenters: [PresenterID] = []
        presenters.reserveCapacity(count)
        report("presenter, alone on its item, without its document") {
            for document in documents {
                presenters.append(
                    world.engine.present(document, by: program.party, implementing: .all, in: world.mailbox))
            }
        }
        for presenter in presenters { world.engine.remove(presenter) }
        report("directory") {
            for item in items { world.engine.place(item, DirectoryInfo(in: world.place.directory)) }
        }
    }

    private static func report(_ name: String, _ body: () -> Void) {
        let before = bytesInUse
        body()
        line("  a " + name, "\((bytesInUse - before + count / 2) / count)")
    }

    private static var bytesInUse: Int { ctest_heap_in_use() }
}
