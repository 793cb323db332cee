// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Every live claim that stakes one thing.
struct Docket: Sendable {
    /// Claims of one standing.
    ///
    /// A reader meets the writers only, a writer both.
    struct Side: Sendable {
        var readers = ClaimQueue()
        var writers = ClaimQueue()

        var isEmpty: Bool { readers.isEmpty && writers.isEmpty }
        var count: Int { readers.count + writers.count }

        mutating func insert(_ claim: ClaimID, _ kin: Kin, _ isWrite: Bool) {
            if isWrite { writers.insert(claim, kin) } else { readers.insert(claim, kin) }
        }

        mutating func name(_ claim: ClaimID, _ kin: Kin, _ isWrite: Bool) {
            if isWrite { writers.name(claim, kin) } else { readers.name(claim, kin) }
        }

        mutating func remove(_ claim: ClaimID, _ isWrite: Bool) {
            if isWrite { writers.remove(claim) } else { readers.remove(claim) }
        }
    }

    var held = Side()
    var waiting = Side()

    var isEmpty: Bool { held.isEmpty && waiting.isEmpty }

    /// Whether a single claim is here, and holds.
    mutating func isOneHolders() -> Bool { held.readers.count + held.writers.count == 1 && waiting.isEmpty }

    /// Enters one who waits. Returns how many there are now.
    mutating func wait(_ claim: ClaimID, _ kin: Kin, _ isWrite: Bool) -> Int {
        waiting.insert(claim, kin, isWrite)
        return waiting.count
    }

    /// Enters a holder. Returns how many there are now.
    mutating func hold(_ claim: ClaimID, _ kin: Kin, _ isWrite: Bool) -> Int {
        held.insert(claim, kin, isWrite)
        return held.count
    }

    /// Enters a claim that nobody else is here to dispute, or leaves it to be disputed.
    mutating func enterAlone(_ claim: ClaimID, _ isWrite: Bool) -> Bool {
        guard isEmpty else { return false }
        held.insert(claim, 0, isWrite)
        return true
    }
}
