// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Which claims block which.
extension Arbiter {
    /// Some blocker of a claim that waits or is about to wait; nil if the claim can be granted (G2).
    ///
    /// The search goes from the claim's own place to the front, and then to the holders. In a long queue the nearest claim
    /// is nearly always a blocker, and the last one to stop being one.
    func findBlocker(of claim: Claim) -> ClaimID? {
        // G4.
        if claim.nature == .pendingSave { return nil }
        if claim.nature == .nameChange { return claims.aware.isEmpty ? nil : awareHolder(keepingOut: claim) }
        // G1: a blocker on one required lock holds back the whole claim.
        return claim.firstOfRequiredLocks { lock in
            guard let lockQueue = locks[lock.resource] else { return nil }
            return waiter(in: lockQueue, at: lock, blocking: claim)
                ?? holder(in: lockQueue, keepingOut: claim, lock)
        }
    }

    /// G4.
    private func awareHolder(keepingOut claim: Claim) -> ClaimID? {
        claim.firstOfRequiredLocks { lock in
            guard let held = locks[lock.resource]?.held else { return nil }
            let isBlocker = { (id: ClaimID) in
                self.claims[id].map {
                    $0.nature == .aware && self.keepsOut($0, claim, asWriter: lock.isWrite)
                }
                    ?? false
            }
            if locks.hasGroups, let grouping = locks.groups(at: lock.resource) {
                return grouping.blocker(of: claim, asWriter: lock.isWrite) {
                    $0.kind.nature == .aware && isBlocker($1)
                }
            }
            return held.writers.lastStranger(of: claim.partyNumber, where: isBlocker)
                ?? (lock.isWrite ? held.readers.lastStranger(of: claim.partyNumber, where: isBlocker) : nil)
        }
    }

    /// Q1, Q2: a waiting blocker: an earlier claim, also for a reader if that claim writes.
    private func waiter(in lockQueue: LockQueue, at lock: RequiredLock, blocking claim: Claim) -> ClaimID? {
        // D3.
        if lockQueue.waiting.isEmpty || claim.overtakes { return nil }
        var blockingAnalysis = BlockingAnalysis(by: families.party(of: claim.id))
        let isBlocker = { (id: ClaimID) in
            self.isBlocker(waiter: id, of: claim, at: lock.resource, &blockingAnalysis)
        }
        if locks.programHoldsExclusively(claim, of: lock.resource) {
            // Its program keeps out all other waiters.
            return waits.nameChanges.filter { $0 < claim.id && meets($0, at: lock) && isBlocker($0) }.max()
        }
        // G3.
        return blocker(in: lockQueue.waiting.writers, of: claim, lock, isBlocker)
            ?? (lock.isWrite ? blocker(in: lockQueue.waiting.readers, of: claim, lock, isBlocker) : nil)
    }

    /// A blocker out of one waiting queue.
    ///
    /// Each writer prefers the claim just before it, so that writers watch each other in a chain. Readers choose different
    /// writers, because all that watch one blocker must be reviewed when it ends.
    private func blocker(
        in queue: ClaimQueue, of claim: Claim, _ lock: RequiredLock, _ isBlocker: (ClaimID) -> Bool
    ) -> ClaimID? {
        // Q1: other claims may be later.
        if lock.isWrite, let last = queue.last(before: claim.id), isBlocker(last) { return last }
        return queue.someStranger(of: claim.partyNumber, before: claim.id, seed: claim.id, where: isBlocker)
    }

    /// Whether a claim meets a required lock.
    private func meets(_ id: ClaimID, at lock: RequiredLock) -> Bool {
        claims[id]?.isWriting(lock.resource).map { $0 || lock.isWrite } ?? false
    }

    /// Q5.
    func isOverlong(_ resource: Resource) -> Bool {
        locks.isOverlong(resource)
    }

    /// Q5: Notes how many claims wait for a resource now.
    mutating func noteLength(of resource: Resource, _ count: Int) {
        switch locks.noteLength(of: resource, count, within: limits.queue) {
        // Claims that overtook others through a third claim wait for those claims now.
        case .becameOverlong: addAllDependencyTargets()
        case .becameShort:
            addAllDependencyTargets()
            // Claims that were blocked only by this rule may be granted.
            guard let waiting = locks[resource]?.waiting else { return }
            agenda.addGrantCandidates(Array(waiting.writers) + Array(waiting.readers))
        case nil: break
        }
    }

    /// Whether a claim, if granted now, overtakes an earlier waiting claim that it meets (Q3).
    func meetsEarlierWaiters(_ claim: Claim) -> Bool {
        !waitForGraph.dependencyTargets.isEmpty && hasEarlierWaiters(claim)
    }

    /// Whether any earlier waiting claim is in a queue that a claim meets.
    private func hasEarlierWaiters(_ claim: Claim) -> Bool {
        claim.firstOfRequiredLocks { lock in
            guard let waiting = locks[lock.resource]?.waiting else { return nil }
            let hasEarlier = waiting.writers.hasAny(before: claim.id)
            return hasEarlier || (lock.isWrite && waiting.readers.hasAny(before: claim.id)) ? true : nil
        } ?? false
    }

    /// Whether an earlier waiter that a claim meets may be granted because of a relative's new hold in this round.
    func conflictsWithWaitersOfNewHolders(_ claim: Claim) -> Bool {
        // G4.
        if claim.nature == .nameChange { return false }
        // Of ten thousand claims granted together, each has as many new holders, but no earlier waiter.
        if !hasEarlierWaiters(claim) { return false }
        // The holds of the claim's own party let no other party overtake.
        var kins: Set<PartyNumber> = [claim.partyNumber]
        let others = agenda.newHolders.compactMap { id in
            claims[id].flatMap {
                $0.partyNumber == 0 || kins.insert($0.partyNumber).inserted ? families.party(of: id) : nil
            }
        }
        if others.isEmpty { return false }
        let isMet = { (id: ClaimID) in
            guard let waiter = self.claims[id], let party = self.families.party(of: id),
                !self.areExempt(waiter, claim)
            else {
                return false
            }
            return others.contains { party.isExempt(from: $0) }
        }
        return meetsEarlierWaiter(claim, where: isMet)
    }

    /// Whether a claim meets a matching earlier waiter.
    func meetsEarlierWaiter(_ claim: Claim, where matches: (ClaimID) -> Bool) -> Bool {
        claim.firstOfRequiredLocks { lock in
            guard let waiting = locks[lock.resource]?.waiting, !waiting.isEmpty else { return nil }
            let met =
                waiting.writers.lastStranger(of: claim.partyNumber, before: claim.id, where: matches)
                ?? (lock.isWrite
                    ? waiting.readers.lastStranger(of: claim.partyNumber, before: claim.id, where: matches)
                    : nil)
            return met.map { _ in true }
        } ?? false
    }

    func holder(in lockQueue: LockQueue, keepingOut claim: Claim, _ lock: RequiredLock) -> ClaimID? {
        let isWrite = lock.isWrite
        if locks.hasGroups, let grouping = locks.groups(at: lock.resource) {
            return grouping.blocker(of: claim, asWriter: isWrite) { group, id in
                isBlocker(holder: id, asWriter: group.kind.isWrite, of: claim, asWriter: isWrite)
            }
        }
        let held = lockQueue.held
        let writer = held.writers.someStranger(of: claim.partyNumber, seed: claim.id, in: self) {
            $0.isBlocker(holder: $1, asWriter: true, of: claim, asWriter: isWrite)
        }
        guard writer == nil, isWrite else { return writer }
        return held.readers.someStranger(of: claim.partyNumber, seed: claim.id, in: self) {
            $0.isBlocker(holder: $1, asWriter: false, of: claim, asWriter: true)
        }
    }

    /// Whether an earlier waiter that meets a claim blocks it; `blockingAnalysis` is by the claim's party.
    func isBlocker(
        waiter id: ClaimID, of claim: Claim, at resource: Resource, _ blockingAnalysis: inout BlockingAnalysis
    )
        -> Bool
    {
        workCounter.add()
        guard let waiter = claims[id], !areExempt(waiter, claim) else { return false }
        // Q3, P6.
        guard blockingAnalysis.arePossible(in: self) else { return true }
        // Q5.
        if isOverlong(resource) {
            return waiter.nature == .nameChange || !locks.programHoldsExclusively(claim, of: resource)
        }
        return !blockingAnalysis.blocks(waiter, in: self)
    }

    /// Whether a holder that meets a claim blocks it, by its hold or by X4.
    func isBlocker(
        holder id: ClaimID, asWriter holderWrites: Bool, of claim: Claim, asWriter isWrite: Bool
    ) -> Bool {
        workCounter.add()
        guard let holder = claims[id], holder.id != claim.id else { return false }
        if keepsOut(holder, claim, asWriter: isWrite) { return true }
        // X4, after G4.
        return holder.suspension != nil && claim.nature != .nameChange && holderWrites && isWrite
            && !(holder.isIdentified && claim.isIdentified) && !holder.isCompatible(beside: claim)
    }

    /// Whether a holder keeps out a claim that it meets on a required lock to write or to read.
    func keepsOut(_ holder: Claim, _ claim: Claim, asWriter isWrite: Bool) -> Bool {
        // G4.
        if claim.nature == .pendingSave || (claim.nature == .nameChange && holder.nature != .aware) {
            return false
        }
        switch holder.suspension {
        case nil: return !areExempt(holder, claim)
        // Y5, Y9.
        case .idle, .unchanged: return isWrite && !areExempt(holder, claim)
        // Y3, Y4, Y6, D3.
        case .yielded, .readerStalled, .holdExpired, .deadlocked: return false
        }
    }

    /// X1, X5, X6.
    func areExempt(_ one: Claim, _ other: Claim) -> Bool {
        one.isCompatible(beside: other) || areOfOneProgram(one, other)
    }

    /// X1, X5.
    func areOfOneProgram(_ one: Claim, _ other: Claim) -> Bool {
        guard one.isIdentified, other.isIdentified, let party = families.party(of: one.id),
            let otherParty = families.party(of: other.id)
        else { return false }
        return party.isExempt(from: otherParty)
    }
}
