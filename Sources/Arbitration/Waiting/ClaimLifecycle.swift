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
        // Q4: A claim that ends while it waits is withdrawn.
        guard claim.isHeld else { return refuse(claim, .withdrawn, &effects) }
        forget(claim, &effects)
    }

    mutating func withdraw(_ id: ClaimID, _ effects: inout [Effect]) {
        // Q4: A withdrawal of an unknown or held claim has no effect.
        guard let claim = claims[id], !claim.isHeld else { return }
        refuse(claim, .withdrawn, &effects)
    }

    mutating func force(_ id: ClaimID, _ effects: inout [Effect]) {
        // T2: A waiting claim that is forced is granted immediately.
        guard let claim = claims[id], !claim.isHeld else { return }
        grant(claim, basis: .proceeded, &effects)
    }

    mutating func endWait(of id: ClaimID, _ effects: inout [Effect]) {
        // T6: A waiting claim is treated as if its time limit was reached, and the policy decides.
        guard let claim = claims[id], !claim.isHeld else { return }
        expire(id, &effects)
    }

    /// X1, X3: Stores the party of a claim. Reviews the claim, its contention, and the claims that wait for the claim.
    mutating func identify(_ id: ClaimID, as party: Party) {
        guard var claim = claims[id], !claim.isIdentified else { return }
        claim.isIdentityRequested = true
        claim.isIdentified = true
        claim.partyNumber = families.identify(id, as: party, isHeld: claim.isHeld)
        claims.replace(claim)
        locks.name(claim)
        regroup(id)
        waits.noteIdentity(of: id)
        if claim.isHeld {
            if locks.countHold(claim) || claim.partyNumber == 0 { agenda.addNewHolder(id) }
            addDependenciesToCandidates(on: claim, party)
            // D1: Cycles contain only identified claims. So claims that were made within this claim may be part of a
            // cycle only now.
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

    /// Removes every record of a claim, and reviews the claims that waited for it.
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

    /// Removes the records that a claim has because it waits.
    mutating func stopWaiting(_ claim: Claim) {
        if waits.remove(claim) { waitForGraph.removeWaiter(claim) }
    }

    /// Adds a claim to the lock queues of its required locks.
    ///
    /// Returns whether, at any of its resources, the claim is the first holder of its program and kind.
    @discardableResult
    mutating func enter(_ claim: Claim) -> Bool {
        var isFirst = false
        claim.forEachRequiredLock { if enter(claim, $0) { isFirst = true } }
        return isFirst
    }

    @discardableResult
    mutating func enter(_ claim: Claim, _ lock: RequiredLock) -> Bool {
        guard claim.isHeld else {
            noteLength(of: lock.resource, locks.wait(claim, for: lock))
            groupHolders(at: lock.resource)
            return false
        }
        let holders = locks.hold(claim, lock)
        if !contentions.isEmpty, contentions[claim.id] != nil {
            contentions.join(claim, at: lock.resource, of: limits.holders)
        }
        if holders > limits.holders || locks.hasGroups { addToGroups(claim, at: lock, of: holders) }
        return locks.countHold(claim, at: lock)
    }

    /// Removes a claim from the lock queues of its required locks. Returns whether, at any of its resources, it was the
    /// last holder of its program and kind.
    @discardableResult
    mutating func leave(_ claim: Claim) -> Bool {
        var isLast = false
        claim.forEachRequiredLock { if leave(claim, $0) { isLast = true } }
        return isLast
    }

    @discardableResult
    mutating func leave(_ claim: Claim, _ lock: RequiredLock) -> Bool {
        guard let left = locks.leave(claim, lock) else { return false }
        if claim.isHeld {
            leaveResourceContention(claim.id, at: lock.resource)
            if locks.hasGroups { removeFromGroups(claim.id, at: lock.resource, of: left) }
        } else {
            if left == 0 { resetNonblocking(at: lock.resource) }
            noteLength(of: lock.resource, left)
        }
        return locks.uncountHold(claim, at: lock)
    }
}
