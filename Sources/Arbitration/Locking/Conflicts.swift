// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Decides which claim blocks which other claim.
extension Arbiter {
    /// Any claim that blocks the given claim; nil if the given claim can be granted (G2).
    ///
    /// The search goes from the claim's own place in the queue to the front, and then to the holders. In a long queue,
    /// the claim just before the given claim nearly always blocks it.
    func findBlocker(of claim: Claim) -> ClaimID? {
        // G4: A pending save is blocked by no claim; a name change only by a held aware claim.
        if claim.nature == .pendingSave { return nil }
        if claim.nature == .nameChange { return claims.aware.isEmpty ? nil : awareHolder(keepingOut: claim) }
        // G1: A claim is granted for all its required locks or for none.
        return claim.firstOfRequiredLocks { lock in
            guard let lockQueue = locks[lock.resource] else { return nil }
            return waiter(in: lockQueue, at: lock, blocking: claim)
                ?? holder(in: lockQueue, keepingOut: claim, lock)
        }
    }

    /// G4: A held aware claim that makes this name change wait.
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

    /// Q1, Q2: Any earlier waiting claim that blocks the given claim. An earlier writer also blocks a reader.
    private func waiter(in lockQueue: LockQueue, at lock: RequiredLock, blocking claim: Claim) -> ClaimID? {
        // D3: A claim that was chosen to overtake is blocked by no waiting claim.
        if lockQueue.waiting.isEmpty || claim.overtakes { return nil }
        var blockingAnalysis = BlockingAnalysis(by: families.party(of: claim.id))
        let isBlocker = { (id: ClaimID) in
            self.isBlocker(waiter: id, of: claim, at: lock.resource, &blockingAnalysis)
        }
        if locks.programHoldsExclusively(claim, of: lock.resource) {
            // A held claim of the same program makes all waiting claims of other programs wait, except name changes. So
            // only a name change can block this claim.
            return waits.nameChanges.filter { $0 < claim.id && meets($0, at: lock) && isBlocker($0) }.max()
        }
        // G3: Readers do not block readers.
        return blocker(in: lockQueue.waiting.writers, of: claim, lock, isBlocker)
            ?? (lock.isWrite ? blocker(in: lockQueue.waiting.readers, of: claim, lock, isBlocker) : nil)
    }

    /// Any claim in a queue of waiting claims that blocks the given claim.
    ///
    /// For a writer, the claim just before it is tried first, so that each writer waits for another claim. For readers,
    /// the search begins at different places. When a blocker ends, only the claims that watch it are reviewed.
    private func blocker(
        in queue: ClaimQueue, of claim: Claim, _ lock: RequiredLock, _ isBlocker: (ClaimID) -> Bool
    ) -> ClaimID? {
        // Q1: Only earlier claims block, and the queue also contains later ones.
        if lock.isWrite, let last = queue.last(before: claim.id), isBlocker(last) { return last }
        return queue.someStranger(of: claim.partyNumber, before: claim.id, seed: claim.id, where: isBlocker)
    }

    /// Whether a claim is incompatible with a required lock: both need the resource, and at least one needs it to
    /// write.
    private func meets(_ id: ClaimID, at lock: RequiredLock) -> Bool {
        claims[id]?.isWriting(lock.resource).map { $0 || lock.isWrite } ?? false
    }

    /// Q5: Whether so many claims wait for the resource that a simpler rule decides which of them block each other.
    func isOverlong(_ resource: Resource) -> Bool {
        locks.isOverlong(resource)
    }

    /// Q5: Stores how many claims wait for a resource now.
    mutating func noteLength(of resource: Resource, _ count: Int) {
        switch locks.noteLength(of: resource, count, within: limits.queue) {
        // Q5: The queue has become very long, so each of its claims waits for more earlier claims than before. This may
        // close a cycle.
        case .becameOverlong: addAllDependencyTargets()
        case .becameShort:
            addAllDependencyTargets()
            // Q5: The queue is no longer very long. Claims that were blocked only by the rule for very long queues can
            // perhaps be granted now.
            guard let waiting = locks[resource]?.waiting else { return }
            agenda.addGrantCandidates(Array(waiting.writers) + Array(waiting.readers))
        case nil: break
        }
    }

    /// Q3: Whether a claim, if it is granted now, overtakes an earlier waiting claim that is perhaps incompatible with
    /// it.
    func meetsEarlierWaiters(_ claim: Claim) -> Bool {
        !waitForGraph.dependencyTargets.isEmpty && hasEarlierWaiters(claim)
    }

    /// Whether the queues of a claim's required locks have any earlier waiting claim that may be incompatible.
    private func hasEarlierWaiters(_ claim: Claim) -> Bool {
        claim.firstOfRequiredLocks { lock in
            guard let waiting = locks[lock.resource]?.waiting else { return nil }
            let hasEarlier = waiting.writers.hasAny(before: claim.id)
            return hasEarlier || (lock.isWrite && waiting.readers.hasAny(before: claim.id)) ? true : nil
        } ?? false
    }

    /// Whether an earlier waiting claim must be reviewed before this claim. If the program of an earlier claim has a
    /// new holder, the earlier claim can perhaps be granted now, and must be reviewed first.
    func conflictsWithWaitersOfNewHolders(_ claim: Claim) -> Bool {
        // G4: Waiting claims do not block a name change.
        if claim.nature == .nameChange { return false }
        // The list of new holders can be long, so it is searched only if an earlier claim waits.
        if !hasEarlierWaiters(claim) { return false }
        // A new holder of this claim's own party does not allow the grant of another party's claim. So such a holder is
        // skipped.
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

    /// Whether any earlier waiting claim is incompatible with the given claim and matches a condition.
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

    /// Whether an earlier waiting claim, which is incompatible with `claim`, blocks `claim`. The analysis must be for
    /// the party of `claim`.
    func isBlocker(
        waiter id: ClaimID, of claim: Claim, at resource: Resource, _ blockingAnalysis: inout BlockingAnalysis
    )
        -> Bool
    {
        workCounter.add()
        guard let waiter = claims[id], !areExempt(waiter, claim) else { return false }
        // Q3, P6: An earlier claim that waits for the party of `claim` does not block `claim`.
        guard blockingAnalysis.arePossible(in: self) else { return true }
        // Q5: If very many claims wait for the resource, a claim goes before an earlier claim only if its own program
        // holds the resource exclusively.
        if isOverlong(resource) {
            return waiter.nature == .nameChange || !locks.programHoldsExclusively(claim, of: resource)
        }
        return !blockingAnalysis.blocks(waiter, in: self)
    }

    /// Whether a holder, which is incompatible with `claim`, blocks `claim`: because of its lock, or until both are
    /// identified (X4).
    func isBlocker(
        holder id: ClaimID, asWriter holderWrites: Bool, of claim: Claim, asWriter isWrite: Bool
    ) -> Bool {
        workCounter.add()
        guard let holder = claims[id], holder.id != claim.id else { return false }
        if keepsOut(holder, claim, asWriter: isWrite) { return true }
        // X4: A writer waits for a suspended writer until both are identified. Name changes do not wait (G4).
        return holder.suspension != nil && claim.nature != .nameChange && holderWrites && isWrite
            && !(holder.isIdentified && claim.isIdentified) && !holder.isCompatible(beside: claim)
    }

    /// Whether the lock of a holder, which is incompatible with a claim, makes the claim wait.
    func keepsOut(_ holder: Claim, _ claim: Claim, asWriter isWrite: Bool) -> Bool {
        // G4: A pending save waits for no holder, and a name change only for an aware holder.
        if claim.nature == .pendingSave || (claim.nature == .nameChange && holder.nature != .aware) {
            return false
        }
        switch holder.suspension {
        case nil: return !areExempt(holder, claim)
        // Y5, Y9: Only writers wait for a holder that is suspended for readers.
        case .idle, .unchanged: return isWrite && !areExempt(holder, claim)
        // Y3, Y4, Y6, D3: No claim waits for a holder that is suspended for all claims.
        case .yielded, .readerStalled, .holdExpired, .deadlocked: return false
        }
    }

    /// X1, X5, X6: Whether two claims never wait for each other.
    func areExempt(_ one: Claim, _ other: Claim) -> Bool {
        one.isCompatible(beside: other) || areOfOneProgram(one, other)
    }

    /// X1, X5: Whether two claims are known to be of one program, or of one purpose.
    func areOfOneProgram(_ one: Claim, _ other: Claim) -> Bool {
        guard one.isIdentified, other.isIdentified, let party = families.party(of: one.id),
            let otherParty = families.party(of: other.id)
        else { return false }
        return party.isExempt(from: otherParty)
    }
}
