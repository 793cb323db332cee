// SPDX-License-Identifier: Apache-2.0
import Coordination

/// How claims begin, are identified and end.
extension Arbiter {
    mutating func add(_ claim: Claim) {
        claims.add(claim)
        waitForGraph.add(claim)
    }

    mutating func claim(_ request: ClaimRequest, _ effects: inout [Effect]) {
        var claim = Claim(request)
        claim.setRequiredLocks(requiredLocks(of: claim))
        lockSubtrees(claim)
        if let watched = findBlocker(of: claim) {
            add(claim)
            enter(claim)
            wait(claim, watching: watched, &effects)
        } else if concernsPresenters(claim) {
            add(claim)
            enter(claim)
            wait(claim, watching: nil, &effects)
        } else {
            claim.isHeld = true
            add(claim)
            hold(claim, basis: .free, &effects)
        }
    }

    mutating func end(_ id: ClaimID, _ effects: inout [Effect]) {
        guard let claim = claims[id] else { return }
        // Q4.
        guard claim.isHeld else { return refuse(claim, .withdrawn, &effects) }
        forget(claim, &effects)
    }

    mutating func withdraw(_ id: ClaimID, _ effects: inout [Effect]) {
        // Q4.
        guard let claim = claims[id], !claim.isHeld else { return }
        refuse(claim, .withdrawn, &effects)
    }

    mutating func force(_ id: ClaimID, _ effects: inout [Effect]) {
        // T2.
        guard let claim = claims[id], !claim.isHeld else { return }
        grant(claim, basis: .proceeded, &effects)
    }

    mutating func endWait(of id: ClaimID, _ effects: inout [Effect]) {
        // T6.
        guard let claim = claims[id], !claim.isHeld else { return }
        expire(id, &effects)
    }

    /// X1, X3: Identifies a claim, and reviews the claim, its watchers and its contention.
    mutating func identify(_ id: ClaimID, as party: Party) {
        guard var claim = claims[id], !claim.isIdentified else { return }
        claim.isIdentityRequested = true
        claim.isIdentified = true
        claim.partyNumber = families.identify(id, as: party, isHeld: claim.isHeld)
        claims.replace(claim)
        name(claim)
        regroup(id)
        waits.noteIdentity(of: id)
        if claim.isHeld {
            if countHold(claim) || claim.partyNumber == 0 { agenda.addNewHolder(id) }
            addDependenciesToCandidates(on: claim, party)
            // D1: the party also matters for claims that were made within this one.
            agenda.addCycleCandidates(waitForGraph.nested(in: id))
            agenda.addHolder(id)
            if claim.nature == .pendingSave { joinAccessSessions(claim, party) }
        } else {
            agenda.addGrantCandidate(id)
            agenda.addCycleCandidate(id)
            addContendedToReview(by: claim)
        }
        releaseWatchers(of: id)
    }

    mutating func refuse(_ claim: Claim, _ refusal: Refusal, _ effects: inout [Effect]) {
        effects.append(.refuse(claim.id, refusal))
        let lastWait = LastWait(
            blocker: waits[claim.id]?.watched, questions: openQuestions(for: claim.id))
        waits.noteRefusal(of: claim.id, lastWait)
        addContendedToReview(by: claim)
        addOvertakersToCandidates(of: claim)
        forget(claim, &effects)
    }

    /// Removes every record of a claim, and reviews the claims that watched it.
    private mutating func forget(_ claim: Claim, _ effects: inout [Effect]) {
        let isLast = leave(claim)
        releaseSubtreeLocks(claim)
        if !registry.consultations.isEmpty { leaveAccessSessions(claim.id, atOnce: claim.isAware, &effects) }
        waitForGraph.remove(claim)
        claims.remove(claim)
        stopWaiting(claim)
        setContention(of: claim, nil)
        if let party = families.remove(claim.id, isHeld: claim.isHeld), claim.isHeld,
            isLast || claim.partyNumber == 0 || claim.suspension != nil
        {
            addRelativesToCandidates(of: party)
        }
        releaseWatchers(of: claim.id)
    }

    /// Removes the records of a claim that exist because it waits.
    mutating func stopWaiting(_ claim: Claim) {
        if waits.remove(claim) { waitForGraph.removeWaiter(claim) }
    }

    /// Enters the party number of a claim in its lock queues.
    private mutating func name(_ claim: Claim) {
        claim.forEachRequiredLock { lock in
            guard let place = lockQueues.index(forKey: lock.resource) else { return }
            if claim.isHeld {
                lockQueues.values[place].held.name(claim.id, claim.partyNumber, lock.isWrite)
            } else {
                lockQueues.values[place].waiting.name(claim.id, claim.partyNumber, lock.isWrite)
            }
        }
    }

    /// Enters a claim in its lock queues.
    ///
    /// Returns whether it is the first claim of its program to hold a resource in its kind.
    @discardableResult
    mutating func enter(_ claim: Claim) -> Bool {
        var isFirst = false
        claim.forEachRequiredLock { if enter(claim, $0) { isFirst = true } }
        return isFirst
    }

    @discardableResult
    mutating func enter(_ claim: Claim, _ lock: RequiredLock) -> Bool {
        guard claim.isHeld else {
            let waiters = lockQueues[lock.resource, default: LockQueue()].wait(
                claim.id, claim.partyNumber, lock.isWrite)
            noteLength(of: lock.resource, waiters)
            groupHolders(at: lock.resource)
            return false
        }
        let holders = lockQueues[lock.resource, default: LockQueue()].hold(
            claim.id, claim.partyNumber, lock.isWrite)
        if !contentions.isEmpty, contentions[claim.id] != nil {
            contentions.join(claim, at: lock.resource, of: limits.holders)
        }
        if holders > limits.holders || !holderGroups.isEmpty { addToGroups(claim, at: lock, of: holders) }
        return countHold(claim, at: lock)
    }

    /// Returns whether it was the last claim of its program to hold a resource in its kind.
    @discardableResult
    mutating func leave(_ claim: Claim) -> Bool {
        var isLast = false
        claim.forEachRequiredLock { if leave(claim, $0) { isLast = true } }
        return isLast
    }

    @discardableResult
    mutating func leave(_ claim: Claim, _ lock: RequiredLock) -> Bool {
        guard let place = lockQueues.index(forKey: lock.resource) else { return false }
        if claim.isHeld {
            lockQueues.values[place].held.remove(claim.id, lock.isWrite)
            leaveResourceContention(claim.id, at: lock.resource)
            if !holderGroups.isEmpty {
                removeFromGroups(claim.id, at: lock.resource, of: lockQueues.values[place].held.count)
            }
        } else {
            lockQueues.values[place].waiting.remove(claim.id, lock.isWrite)
            if lockQueues.values[place].waiting.isEmpty { resetNonblocking(at: lock.resource) }
            noteLength(of: lock.resource, lockQueues.values[place].waiting.count)
        }
        if lockQueues.values[place].isEmpty { lockQueues.remove(at: place) }
        return uncountHold(claim, at: lock)
    }
}
