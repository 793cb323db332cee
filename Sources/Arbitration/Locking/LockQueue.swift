// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Every live claim that requires one resource.
struct LockQueue: Sendable {
    /// Held claims or waiting claims.
    ///
    /// A reader meets only writers, a writer both.
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

    /// Returns whether the only claim here is a holder.
    mutating func hasSingleHolder() -> Bool {
        held.readers.count + held.writers.count == 1 && waiting.isEmpty
    }

    /// Adds a waiting claim, and returns the number of waiting claims.
    mutating func wait(_ claim: ClaimID, _ partyNumber: PartyNumber, _ isWrite: Bool) -> Int {
        waiting.insert(claim, partyNumber, isWrite)
        return waiting.count
    }

    /// Adds a holder, and returns the number of holders.
    mutating func hold(_ claim: ClaimID, _ partyNumber: PartyNumber, _ isWrite: Bool) -> Int {
        held.insert(claim, partyNumber, isWrite)
        return held.count
    }

    /// Removes a claim; returns how many others hold or wait as it did, and whether no claim is here now.
    mutating func leave(_ claim: ClaimID, _ isWrite: Bool, isHeld: Bool) -> (left: Int, isEmpty: Bool) {
        if isHeld {
            held.remove(claim, isWrite)
            return (held.count, isEmpty)
        }
        waiting.remove(claim, isWrite)
        return (waiting.count, isEmpty)
    }

    /// Adds a holder if no other claim is here; returns false if there is one.
    mutating func enterUncontended(_ claim: ClaimID, _ isWrite: Bool) -> Bool {
        guard isEmpty else { return false }
        held.insert(claim, 0, isWrite)
        return true
    }
}
