// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Every live claim that stakes one thing.
struct LockQueue: Sendable {
    /// Claims of one standing.
    ///
    /// A reader meets the writers only, a writer both.
    struct ModeQueues: Sendable {
        var readers = ClaimQueue()
        var writers = ClaimQueue()

        var isEmpty: Bool { readers.isEmpty && writers.isEmpty }
        var count: Int { readers.count + writers.count }

        mutating func insert(_ claim: ClaimID, _ partyNumber: PartyNumber, _ isWrite: Bool) {
            if isWrite { writers.insert(claim, partyNumber) } else { readers.insert(claim, partyNumber) }
        }

        mutating func name(_ claim: ClaimID, _ partyNumber: PartyNumber, _ isWrite: Bool) {
            if isWrite { writers.name(claim, partyNumber) } else { readers.name(claim, partyNumber) }
        }

        mutating func remove(_ claim: ClaimID, _ isWrite: Bool) {
            if isWrite { writers.remove(claim) } else { readers.remove(claim) }
        }
    }

    var held = ModeQueues()
    var waiting = ModeQueues()

    var isEmpty: Bool { held.isEmpty && waiting.isEmpty }

    /// Whether a single claim is here, and holds.
    mutating func hasSingleHolder() -> Bool {
        held.readers.count + held.writers.count == 1 && waiting.isEmpty
    }

    /// Enters one who waits. Returns how many there are now.
    mutating func wait(_ claim: ClaimID, _ partyNumber: PartyNumber, _ isWrite: Bool) -> Int {
        waiting.insert(claim, partyNumber, isWrite)
        return waiting.count
    }

    /// Enters a holder. Returns how many there are now.
    mutating func hold(_ claim: ClaimID, _ partyNumber: PartyNumber, _ isWrite: Bool) -> Int {
        held.insert(claim, partyNumber, isWrite)
        return held.count
    }

    /// Enters a claim that nobody else is here to dispute, or leaves it to be disputed.
    mutating func enterUncontended(_ claim: ClaimID, _ isWrite: Bool) -> Bool {
        guard isEmpty else { return false }
        held.insert(claim, 0, isWrite)
        return true
    }
}
