// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Who stands in whose way. Nothing here changes anything.
extension Arbiter {
    /// Some claim that stands in the way of one that waits or is about to; nil if it can be granted (G2).
    ///
    /// Looked for from the claim's own place towards the front, holders last: in a long queue the nearest
    /// claim is nearly always in the way, and the one to change its mind last.
    func findBlocker(of claim: Claim) -> ClaimID? {
        // G4.
        if claim.nature == .pendingSave { return nil }
        if claim.nature == .nameChange { return aware.isEmpty ? nil : awareHolder(keepingOut: claim) }
        // G1: any stake that is disputed holds the whole claim back.
        return claim.firstOfRequiredLocks { lock in
            guard let lockQueue = lockQueues[lock.resource] else { return nil }
            return waiter(in: lockQueue, at: lock, blocking: claim)
                ?? holder(in: lockQueue, keepingOut: claim, lock)
        }
    }

    /// G4.
    private func awareHolder(keepingOut claim: Claim) -> ClaimID? {
        claim.firstOfRequiredLocks { lock in
            guard let held = lockQueues[lock.resource]?.held else { return nil }
            let isBlocker = { (id: ClaimID) in
                self.claims[id].map {
                    $0.nature == .aware && self.keepsOut($0, claim, asWriter: lock.isWrite)
                }
                    ?? false
            }
            if !holderGroups.isEmpty, let grouping = holderGroups[lock.resource] {
                return grouping.blocker(of: claim, asWriter: lock.isWrite) {
                    $0.kind.nature == .aware && isBlocker($1)
                }
            }
            return held.writers.lastStranger(of: claim.partyNumber, where: isBlocker)
                ?? (lock.isWrite ? held.readers.lastStranger(of: claim.partyNumber, where: isBlocker) : nil)
        }
    }

    /// Q1, Q2: those who wait stand in the way of later claims only, readers too if there is a writer between.
    private func waiter(in lockQueue: LockQueue, at lock: RequiredLock, blocking claim: Claim) -> ClaimID? {
        // D3.
        if lockQueue.waiting.isEmpty || claim.overtakes { return nil }
        var blockingAnalysis = BlockingAnalysis(by: parties[claim.id])
        let isBlocker = { (id: ClaimID) in
            self.isBlocker(waiter: id, of: claim, at: lock.resource, &blockingAnalysis)
        }
        if programHoldsExclusively(claim, of: lock.resource) {
            // Its program keeps out all the others.
            return waitingNameChanges.filter { $0 < claim.id && meets($0, at: lock) && isBlocker($0) }.max()
        }
        // G3.
        return blocker(in: lockQueue.waiting.writers, of: claim, lock, isBlocker)
            ?? (lock.isWrite ? blocker(in: lockQueue.waiting.readers, of: claim, lock, isBlocker) : nil)
    }

    /// Of writers each looks at the one before it, so that they are a chain. A reader looks at writers alone, and very many
    /// readers are not to look all at the same one: each would have to look again when that one gives up.
    private func blocker(
        in queue: ClaimQueue, of claim: Claim, _ lock: RequiredLock, _ isBlocker: (ClaimID) -> Bool
    ) -> ClaimID? {
        // Q1: the others may come later.
        if lock.isWrite, let last = queue.last(before: claim.id), isBlocker(last) { return last }
        return queue.someStranger(of: claim.partyNumber, before: claim.id, seed: claim.id, where: isBlocker)
    }

    /// Whether a claim stakes something that a stake meets.
    private func meets(_ id: ClaimID, at lock: RequiredLock) -> Bool {
        claims[id]?.isWriting(lock.resource).map { $0 || lock.isWrite } ?? false
    }

    /// Q5.
    func isOverlong(_ resource: Resource) -> Bool {
        !overlongQueues.isEmpty && overlongQueues.contains(resource)
    }

    /// Q5: so many wait for something now.
    ///
    /// Very many leave between one change and the next back: for each change all are looked at who wait there.
    mutating func noteLength(of resource: Resource, _ count: Int) {
        if count > limits.queue {
            guard overlongQueues.insert(resource).inserted else { return }
            // Those who passed others by way of a third wait for them now.
            addAllDependencyTargets()
        } else if !overlongQueues.isEmpty, count <= limits.queue / 2, overlongQueues.remove(resource) != nil {
            addAllDependencyTargets()
            // Those who are held back by the rule alone may go.
            guard let waiting = lockQueues[resource]?.waiting else { return }
            grantCandidates += Array(waiting.writers) + Array(waiting.readers)
        }
    }

    /// Whether somebody waits and is earlier whom a claim meets, and passes if it is granted (Q3).
    func meetsEarlierWaiters(_ claim: Claim) -> Bool {
        !dependencyTargets.isEmpty && hasEarlierWaiters(claim)
    }

    /// Whether anybody at all waits who is earlier and whom a claim meets.
    private func hasEarlierWaiters(_ claim: Claim) -> Bool {
        claim.firstOfRequiredLocks { lock in
            guard let waiting = lockQueues[lock.resource]?.waiting else { return nil }
            let hasEarlier = waiting.writers.hasAny(before: claim.id)
            return hasEarlier || (lock.isWrite && waiting.readers.hasAny(before: claim.id)) ? true : nil
        } ?? false
    }

    /// Whether a claim meets somebody who waits, is earlier, and may go because of what a relative holds since this round.
    func conflictsWithWaitersOfNewHolders(_ claim: Claim) -> Bool {
        // G4.
        if claim.nature == .nameChange { return false }
        // Of ten thousand who are granted together, each has as many new holders, and nobody before it.
        if !hasEarlierWaiters(claim) { return false }
        // What the claim's own kin hold lets nobody else pass.
        var kins: Set<PartyNumber> = [claim.partyNumber]
        let others = newHolders.compactMap { id in
            claims[id].flatMap {
                $0.partyNumber == 0 || kins.insert($0.partyNumber).inserted ? parties[id] : nil
            }
        }
        if others.isEmpty { return false }
        let isMet = { (id: ClaimID) in
            guard let waiter = self.claims[id], let party = self.parties[id], !self.areExempt(waiter, claim)
            else {
                return false
            }
            return others.contains { party.isExempt(from: $0) }
        }
        return meetsEarlierWaiter(claim, where: isMet)
    }

    /// Whether a claim meets somebody who waits, is earlier and matches.
    func meetsEarlierWaiter(_ claim: Claim, where matches: (ClaimID) -> Bool) -> Bool {
        claim.firstOfRequiredLocks { lock in
            guard let waiting = lockQueues[lock.resource]?.waiting, !waiting.isEmpty else { return nil }
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
        if !holderGroups.isEmpty, let grouping = holderGroups[lock.resource] {
            return grouping.blocker(of: claim, asWriter: isWrite) { group, id in
                isBlocker(holder: id, asWriter: group.kind.isWrite, of: claim, asWriter: isWrite)
            }
        }
        return lockQueue.held.writers.someStranger(of: claim.partyNumber, seed: claim.id) {
            isBlocker(holder: $0, asWriter: true, of: claim, asWriter: isWrite)
        }
            ?? (isWrite
                ? lockQueue.held.readers.someStranger(of: claim.partyNumber, seed: claim.id) {
                    isBlocker(holder: $0, asWriter: false, of: claim, asWriter: true)
                } : nil)
    }

    /// Whether a waiting claim that meets another there, and is earlier, stands in its way; `blockingAnalysis` are by the latter's party.
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
            return waiter.nature == .nameChange || !programHoldsExclusively(claim, of: resource)
        }
        return !blockingAnalysis.hold(up: waiter, in: self)
    }

    /// Whether a holder that meets a claim stands in its way: it keeps it out, or X4 holds it back.
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

    /// Whether a holder keeps out a claim that it meets on a stake to write or to read.
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
        case .yielded, .readerStalled, .held, .deadlocked: return false
        }
    }

    /// X1, X5, X6.
    func areExempt(_ one: Claim, _ other: Claim) -> Bool {
        one.isCompatible(beside: other) || areOfOneProgram(one, other)
    }

    /// X1, X5.
    func areOfOneProgram(_ one: Claim, _ other: Claim) -> Bool {
        guard one.isIdentified, other.isIdentified, let party = parties[one.id],
            let otherParty = parties[other.id]
        else { return false }
        return party.isExempt(from: otherParty)
    }
}
