// SPDX-License-Identifier: Apache-2.0
import Arbitration
import Coordination

/// Measures the cost of claims in the arbiter alone, without the engine and its lock.
enum ArbiterAlone {
    static func measure() {
        print("The arbiter alone")
        uncontested("claim + end, alone", elsewhere: 0)
        uncontested("claim + end, 100,000 claims elsewhere", elsewhere: 100_000)
        uncontested("claim + end beside one reader", elsewhere: 0, beside: true)
        queue("10,000 waiting readers granted", access: .read())
        queue("10,000 waiting writers granted in turn", access: .write(.updating))
        crowd()
        for count in [200, 400, 800] as [UInt64] { siblings(count) }
        for count in [50, 100, 200] as [UInt64] { entangled(count) }
        for count in [15, 30, 60] as [UInt64] { deletions(count, overHolders: 10 * count) }
    }

    static func uncontested(_ name: String, elsewhere: UInt64, beside: Bool = false) {
        var arbiter = Arbiter(bounds: Bounds())
        var effects: [Effect] = []
        let now = Instant(nanoseconds: 1)
        for number in 0..<elsewhere {
            claim(number, on: 1 + number, .read(), of: &arbiter, &effects)
        }
        if beside { claim(elsewhere, on: 0, .read(), of: &arbiter, &effects) }
        let rounds: UInt64 = 1_000_000
        var next = elsewhere + 1
        let best = best(of: 5) {
            for _ in 0..<rounds {
                effects.removeAll(keepingCapacity: true)
                claim(next, on: 0, .read(), of: &arbiter, &effects)
                arbiter.handle(.ended(ClaimID(next)), at: now, into: &effects)
                next += 1
            }
        }
        print("\(name): \(best / Int(rounds))")
    }

    /// Measures a queue behind a writer that holds the item.
    ///
    /// The other claims arrive one after another. Each claim is identified when the arbiter asks, and ends as soon as it is
    /// granted.
    static func queue(_ name: String, access: Access) {
        let count: UInt64 = 10_000
        var arriving = Duration.zero
        let best = best(of: 3) {
            var arbiter = Arbiter(bounds: Bounds())
            var effects: [Effect] = []
            arriving = ContinuousClock().measure {
                claim(0, on: 0, .write(.updating), of: &arbiter, &effects)
                for number in 1...count { claim(number, on: 0, access, of: &arbiter, &effects) }
                identify(&arbiter, &effects)
            }
            var ended: UInt64 = 0
            effects = [.grant(ClaimID(0), Grant(basis: .free))]
            while let effect = effects.popLast() {
                guard case .grant(let claim, _) = effect else { continue }
                ended += 1
                arbiter.handle(.ended(claim), at: Instant(nanoseconds: 2), into: &effects)
            }
            precondition(ended == count + 1, "everybody had a turn")
        }
        print("\(name): \(best) (of which arriving and identified: \(arriving))")
    }

    /// Measures a writer that waits for 10,000 readers. All readers come into contention, and end one after another.
    static func crowd() {
        let count: UInt64 = 10_000
        let best = best(of: 3) {
            var arbiter = Arbiter(bounds: Bounds())
            var effects: [Effect] = []
            for number in 0..<count { claim(number, on: 0, .read(), of: &arbiter, &effects) }
            claim(count, on: 0, .write(.updating), of: &arbiter, &effects)
            identify(&arbiter, &effects)
            for number in 0..<count {
                arbiter.handle(.ended(ClaimID(number)), at: Instant(nanoseconds: 2), into: &effects)
            }
            precondition(
                effects.contains(.grant(ClaimID(count), Grant(basis: .waited))), "the writer has its turn")
        }
        print("10,000 readers met by a writer, identified and ended: \(best)")
    }

    /// Measures threads of one process that wait for a writer until their time limit ends.
    static func siblings(_ count: UInt64) {
        let best = best(of: 1) {
            var arbiter = Arbiter(bounds: Bounds())
            var effects: [Effect] = []
            claim(0, on: 0, .write(.updating), of: &arbiter, &effects)
            for number in 1...count {
                claim(number, on: 0, .write(.updating), of: &arbiter, &effects)
                arbiter.handle(
                    .identified(ClaimID(number), party(1)), at: Instant(nanoseconds: 1), into: &effects)
            }
            arbiter.handle(.identified(ClaimID(0), party(2)), at: Instant(nanoseconds: 1), into: &effects)
            arbiter.handle(.tick, at: Instant(nanoseconds: 60_000_000_000), into: &effects)
            for number in 1...count {
                arbiter.handle(
                    .ended(ClaimID(number)), at: Instant(nanoseconds: 60_000_000_000), into: &effects)
            }
        }
        print("\(count) threads of one process wait for one writer until their wait runs out: \(best)")
    }

    /// Measures threads of two processes. The threads of each process hold files, and wait for files that the other process
    /// holds.
    static func entangled(_ count: UInt64) {
        var found = 0
        let best = best(of: 1) {
            var arbiter = Arbiter(bounds: Bounds())
            var effects: [Effect] = []
            for number in 0..<count { claim(number, on: number, .write(.updating), of: &arbiter, &effects) }
            for number in 0..<count {
                claim(count + number, on: (number + 1) % count, .write(.updating), of: &arbiter, &effects)
            }
            for number in 0..<2 * count {
                arbiter.handle(
                    .identified(ClaimID(number), party(Int32(number % 2))), at: Instant(nanoseconds: 1),
                    into: &effects)
            }
            found = effects.count { if case .deadlock = $0 { true } else { false } }
        }
        print("\(count) files of two processes that wait for each other's, \(found) deadlocks: \(best)")
    }

    /// Measures a child that waits to delete a directory, `count` times. In the directory, the child's parent has aware
    /// accesses.
    static func deletions(_ count: UInt64, overHolders holders: UInt64) {
        let best = best(of: 1) {
            var arbiter = Arbiter(bounds: Bounds())
            var effects: [Effect] = []
            let (now, directory) = (Instant(nanoseconds: 1), ItemID(1))
            arbiter.handle(.placed(directory, DirectoryInfo(in: nil)), at: now, into: &effects)
            func access(
                _ number: UInt64, _ part: ClaimRequest.Part, by process: Int32, below ancestors: [Int32]
            ) {
                var party = Party(
                    process: ProcessID(number: process, started: 1),
                    ancestors: ancestors.map { ProcessID(number: $0, started: 1) })
                party.purpose = Purpose("\(number)")
                arbiter.handle(
                    .claimed(ClaimRequest(ClaimID(number), .aware, part, nil)), at: now, into: &effects)
                arbiter.handle(.identified(ClaimID(number), party), at: now, into: &effects)
            }
            for number in 1...holders {
                let part = ClaimRequest.Part(ItemID(1 + number), .read(), at: Place(in: directory))
                access(number, part, by: 100, below: [])
            }
            for number in 1...count {
                let part = ClaimRequest.Part(directory, .write(.forDeleting), at: Place())
                access(holders + number, part, by: 101, below: [100])
            }
            arbiter.handle(.tick, at: now, into: &effects)
        }
        print("\(count) deletions of a directory wait for \(holders) accesses of a relative: \(best)")
    }

    static func party(_ number: Int32) -> Party {
        Party(process: ProcessID(number: number + 10, started: 1), ancestors: [])
    }

    static func identify(_ arbiter: inout Arbiter, _ effects: inout [Effect]) {
        let asked = effects
        effects.removeAll()
        for case .identify(let claim) in asked {
            let number = Int32(truncatingIfNeeded: claim.rawValue) + 1000
            let shell = ProcessID(number: 1, started: 1)
            let party = Party(process: ProcessID(number: number, started: 1), ancestors: [shell])
            arbiter.handle(.identified(claim, party), at: Instant(nanoseconds: 1), into: &effects)
        }
    }

    static func claim(
        _ number: UInt64, on item: UInt64, _ access: Access, of arbiter: inout Arbiter,
        _ effects: inout [Effect]
    ) {
        let request = ClaimRequest(ClaimID(number), .handle, ClaimRequest.Part(ItemID(item), access))
        arbiter.handle(.claimed(request), at: Instant(nanoseconds: 1), into: &effects)
    }

    static func best(of rounds: Int, _ body: () -> Void) -> Duration {
        (0..<rounds).map { _ in ContinuousClock().measure(body) }.min() ?? .zero
    }
}
