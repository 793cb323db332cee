// SPDX-License-Identifier: Apache-2.0
import Coordination

/// All claims that require one resource, held and waiting.
struct LockQueue: Sendable {
    /// Either the held claims or the waiting claims of a resource.
    ///
    /// A reader is incompatible only with writers. A writer is incompatible with readers and writers.
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

    /// Returns whether the queue has only one claim, and that claim is held.
    mutating func hasSingleHolder() -> Bool {
        held.readers.count + held.writers.count == 1 && waiting.isEmpty
    }

    /// Adds a waiting claim. Returns the number of waiting claims.
    mutating func wait(_ claim: ClaimID, _ partyNumber: PartyNumber, _ isWrite: Bool) -> Int {
        waiting.insert(claim, partyNumber, isWrite)
        return waiting.count
    }

    /// Adds a holder. Returns the number of holders.
    mutating func hold(_ claim: ClaimID, _ partyNumber: PartyNumber, _ isWrite: Bool) -> Int {
        held.insert(claim, partyNumber, isWrite)
        return held.count
    }

    /// Removes a held or waiting claim. Returns how many other claims have the same state, and whether the queue is
    /// empty now.
    mutating func leave(_ claim: ClaimID, _ isWrite: Bool, isHeld: Bool) -> (left: Int, isEmpty: Bool) {
        if isHeld {
            held.remove(claim, isWrite)
            return (held.count, isEmpty)
        }
        waiting.remove(claim, isWrite)
        return (waiting.count, isEmpty)
    }

    /// Adds a holder if the queue is empty. If not, changes nothing and returns false.
    mutating func enterUncontended(_ claim: ClaimID, _ isWrite: Bool) -> Bool {
        guard isEmpty else { return false }
        held.insert(claim, 0, isWrite)
        return true
    }
}
