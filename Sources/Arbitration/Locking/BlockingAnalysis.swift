// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Q3, P6: Finds the waiting claims that wait for a party, directly or through other waiting claims.
///
/// A claim waits for the party in two cases: the party holds a resource that the claim needs, or the party has not
/// answered a question for the claim. Each result is stored, so that a claim of a long queue is not analysed once for
/// every claim behind it.
struct BlockingAnalysis {
    /// Claims of one resource: the claims that require a lock to write, and the claims that require a lock to read.
    private struct Sides {
        var writers: [ClaimID] = []
        var readers: [ClaimID] = []

        /// Whether any matching claim is incompatible with a lock. `isWrite` says whether the lock is to write or to
        /// read.
        func contains(metBy isWrite: Bool, where matches: (ClaimID) -> Bool) -> Bool {
            writers.contains(where: matches) || (isWrite && readers.contains(where: matches))
        }
    }

    private let party: Party?
    private var known: [ClaimID: Bool] = [:]
    /// For each resource: the claims on it that are held by the party or by related processes.
    private var theirs: [Resource: Sides] = [:]
    /// For each resource: the waiting claims that were found to wait for the party.
    private var heldUp: [Resource: Sides] = [:]
    private var queues = EarlierWaiters()

    private var isPossible: Bool?

    init(by party: Party?) { self.party = party }

    /// Returns whether any claim can wait for the party: the party holds a claim, or has not answered a question.
    mutating func arePossible(in arbiter: Arbiter) -> Bool {
        if let isPossible { return isPossible }
        let found =
            party.map { arbiter.families.holders.hasRelative(of: $0) || arbiter.registry.owesAnyAnswer($0) }
            ?? false
        isPossible = found
        return found
    }

    mutating func blocks(_ waiter: Claim, in arbiter: Arbiter) -> Bool {
        guard let party else { return false }
        if let known = known[waiter.id] { return known }
        if holds(party, up: waiter, arbiter) { return note(waiter, true) }
        var answer = false
        // A claim waits only for earlier claims. So the claims are checked in the order of their numbers.
        for claim in chain(behind: waiter, arbiter).sorted(by: { $0.id < $1.id }) where known[claim.id] == nil
        {
            answer = note(claim, holds(party, up: claim, arbiter) || waitsForOneHeldUp(claim, arbiter))
        }
        return answer
    }

    private mutating func note(_ claim: Claim, _ isHeldUp: Bool) -> Bool {
        known[claim.id] = isHeldUp
        guard isHeldUp else { return false }
        claim.forEachRequiredLock { lock in
            if lock.isWrite {
                heldUp[lock.resource, default: Sides()].writers.append(claim.id)
            } else {
                heldUp[lock.resource, default: Sides()].readers.append(claim.id)
            }
        }
        return true
    }

    /// A waiting claim, and all claims for which it waits directly or through other waiting claims. Claims with a
    /// stored result are left out.
    private mutating func chain(behind waiter: Claim, _ arbiter: Arbiter) -> [Claim] {
        var chain: [Claim] = []
        var unexplored = [waiter]
        while let next = unexplored.popLast() {
            chain.append(next)
            next.forEachRequiredLock { lock in
                queues.takeNew(before: next, at: lock, in: arbiter) { earlier in
                    guard !arbiter.areExempt(earlier, next) else { return false }
                    unexplored.append(earlier)
                    return true
                }
            }
        }
        return chain
    }

    private func waitsForOneHeldUp(_ claim: Claim, _ arbiter: Arbiter) -> Bool {
        if heldUp.isEmpty { return false }
        let found = claim.firstOfRequiredLocks { lock -> Bool? in
            // Q5: If very many claims wait for the resource, these waits are not followed, because this would take too
            // long.
            if arbiter.isOverlong(lock.resource) { return nil }
            let isOne = { (id: ClaimID) in
                id < claim.id && (arbiter.claims[id].map { !arbiter.areExempt($0, claim) } ?? false)
            }
            return heldUp[lock.resource]?.contains(metBy: lock.isWrite, where: isOne) == true ? true : nil
        }
        return found != nil
    }

    /// Returns whether a claim waits directly for a claim of the party, or for an answer of the party.
    private mutating func holds(_ party: Party, up claim: Claim, _ arbiter: Arbiter) -> Bool {
        let found = claim.firstOfRequiredLocks { lock in
            let isBlockingHolder = { (id: ClaimID) in
                arbiter.claims[id].map { arbiter.keepsOut($0, claim, asWriter: lock.isWrite) } ?? false
            }
            return holdings(of: party, in: lock.resource, arbiter)
                .contains(metBy: lock.isWrite, where: isBlockingHolder) ? true : nil
        }
        return found != nil || arbiter.registry.owes(party, to: claim.id)
    }

    private mutating func holdings(of party: Party, in resource: Resource, _ arbiter: Arbiter) -> Sides {
        if let known = theirs[resource] { return known }
        var found = Sides()
        if let held = arbiter.locks[resource]?.held {
            let isTheirs = { (id: ClaimID) in arbiter.families.party(of: id)?.isExempt(from: party) ?? false }
            if let grouping = arbiter.locks.groups(at: resource) {
                // Fully suspended holders block no claim. All claims of a group block the same claims, so the first
                // claim is enough.
                for group in grouping.active where isTheirs(group.first) {
                    if group.kind.isWrite {
                        found.writers.append(group.first)
                    } else {
                        found.readers.append(group.first)
                    }
                }
            } else {
                found = Sides(writers: held.writers.filter(isTheirs), readers: held.readers.filter(isTheirs))
            }
        }
        theirs[resource] = found
        return found
    }
}

/// The earlier claims in the queues that a search visits; each claim is returned only once.
///
/// So a search reads a long queue only once, and not once for each claim in the queue.
struct EarlierWaiters {
    private var taken: Set<ClaimID> = []
    /// For each resource, the claims of the queue that were not returned yet, in the order of their numbers.
    private var writers: [Resource: [ClaimID]] = [:]
    private var readers: [Resource: [ClaimID]] = [:]

    /// Calls the body with the earlier waiting claims that are incompatible with a required lock of a claim.
    ///
    /// A claim for which the body returns true is not returned again.
    mutating func takeNew(
        before claim: Claim, at lock: RequiredLock, in arbiter: borrowing Arbiter, _ body: (Claim) -> Bool
    ) {
        // Q5: If very many claims wait for the resource, these waits are not followed, because this would take too
        // long.
        guard let waiting = arbiter.locks[lock.resource]?.waiting, !waiting.isEmpty,
            !arbiter.isOverlong(lock.resource)
        else { return }
        writers[lock.resource] = take(
            from: writers[lock.resource] ?? Array(waiting.writers), before: claim.id, arbiter.claims, body)
        guard lock.isWrite else { return }
        readers[lock.resource] = take(
            from: readers[lock.resource] ?? Array(waiting.readers), before: claim.id, arbiter.claims, body)
    }

    /// Returns the claims of the queue that are left for later calls.
    private mutating func take(
        from queue: [ClaimID], before id: ClaimID, _ claims: ClaimTable, _ body: (Claim) -> Bool
    ) -> [ClaimID] {
        var left: [ClaimID] = []
        for (place, candidate) in queue.enumerated() {
            guard candidate < id else {
                left += queue[place...]
                break
            }
            if taken.contains(candidate) { continue }
            guard let earlier = claims[candidate], body(earlier) else {
                left.append(candidate)
                continue
            }
            taken.insert(candidate)
        }
        return left
    }
}
