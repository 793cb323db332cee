// SPDX-License-Identifier: Apache-2.0
import Coordination

/// How claims begin to wait and are granted.
extension Arbiter {
    /// Adds a new claim to the waiting claims.
    ///
    /// If `watched` is nil, no other claim blocks the new claim, and it waits because presenters must be asked.
    mutating func wait(_ claim: Claim, watching watched: ClaimID?, _ effects: inout [Effect]) {
        // T1: The wait ends after the claim's own time limit, or after `bounds.wait`.
        let deadline = now + (claim.ownBounds.wait ?? bounds.wait)
        waits.add(claim, WaitRecord(began: now, deadline: deadline, watched: watched))
        waitForGraph.addWaiter(claim)
        clock.setTimer(for: .claim(claim.id), at: deadline)
        requestIdentity(claim.id, &effects)
        addHoldersToReview(blocking: claim)
    }

    /// Grants a claim that has waited.
    mutating func grant(_ claim: Claim, basis: Grant.Basis, _ effects: inout [Effect]) {
        if basis == .proceeded || meetsEarlierWaiters(claim) { addOvertakersToCandidates(of: claim) }
        leave(claim)
        stopWaiting(claim)
        addContendedToReview(by: claim)
        var claim = claim
        claim.isHeld = true
        if basis == .proceeded {
            claim.mayOverlap = true
            claim.hasProceeded = true
            stopAsking(for: claim.id)
        }
        claims.replace(claim)
        if let party = families.noteGrant(of: claim.id) {
            addDependenciesToCandidates(on: claim, party)
        }
        hold(claim, basis: basis, &effects)
    }

    /// Adds a claim to the holders, and emits the effect `grant`.
    mutating func hold(_ claim: Claim, basis: Grant.Basis, _ effects: inout [Effect]) {
        let unanswered =
            registry.isEmpty ? [] : Set(unanswered(by: claim) + unaskedWrites(byGranted: claim)).sorted()
        if !unanswered.isEmpty {
            registry.updateConsultation(of: claim.id) { $0.overriddenPresenters = unanswered }
        }
        effects.append(
            .grant(
                claim.id,
                grant(basis, of: claim, unanswered)))
        let isFirst = enter(claim)
        // Q3: If the program has another claim of this kind on the resource, the new holder makes no further claims
        // wait.
        if isFirst || claim.partyNumber == 0, families.party(of: claim.id) != nil {
            agenda.addNewHolder(claim.id)
        }
        if !registry.isEmpty, !claim.onlyReads { registry.noteEntry(of: claim.id) }
        var meetsWaiters = registry.isRelinquished(to: claim.id)
        claim.forEachRequiredLock { lock in
            if let lockQueue = locks[lock.resource], !lockQueue.waiting.isEmpty { meetsWaiters = true }
        }
        if meetsWaiters { agenda.addHolder(claim.id) }
    }

    /// G5: Returns the grant of a write, with the write claims that it preempts.
    private func grant(_ basis: Grant.Basis, of claim: Claim, _ unanswered: [PresenterID]) -> Grant {
        var preempted: [Grant.Preemption] = []
        // B1: A batch only asks presenters about later accesses. It holds no lock, so it preempts no claim.
        if claim.nature == .batch { return Grant(basis: basis, unanswered: unanswered) }
        claim.forEachPart { part in
            guard part.access.isWrite, let lockQueue = locks[.item(part.item)] else { return }
            if locks.hasGroups, let grouping = locks.groups(at: .item(part.item)),
                grouping.hasFewKindsOfWriters
            {
                preempted += self.preempted(by: claim, of: grouping)
                return
            }
            var found = 0
            _ = lockQueue.held.writers.firstStranger(of: claim.partyNumber) { id in
                guard let other = claims[id], other.id != claim.id, other.isBounded,
                    !areExempt(other, claim), other.isWritingPart(part.item)
                else { return false }
                found += 1
                preempted.append(Grant.Preemption(claim: id, isClean: other.isClean))
                return found > limits.preempted
            }
        }
        if !claim.isOnOneItem {
            var seen: Set<ClaimID> = []
            preempted = preempted.filter { seen.insert($0.claim).inserted }.sorted { $0.claim < $1.claim }
        }
        return Grant(
            basis: basis, preempted: Array(preempted.prefix(limits.preempted)),
            preemptsMore: preempted.count > limits.preempted,
            unanswered: unanswered)
    }

    /// The claims that a write preempts at a resource with very many holders, which are in groups. Only the first few
    /// writers of each group are visited.
    private func preempted(by claim: Claim, of grouping: HolderGroups) -> [Grant.Preemption] {
        var found: [ClaimID] = []
        for group in grouping.writers.all + grouping.suspendedWriters.all
        where group.kind.isBounded && group.kind.isWritingPart {
            guard let one = claims[group.first], !areExempt(one, claim) else { continue }
            found += group.firstOnes(limits.preempted + 1)
        }
        return found.sorted().prefix(limits.preempted + 1).map {
            Grant.Preemption(claim: $0, isClean: claims[$0]?.isClean ?? false)
        }
    }

    /// X2: Asks for the party of a claim, once per claim.
    mutating func requestIdentity(_ id: ClaimID, _ effects: inout [Effect]) {
        if claims.requestIdentity(of: id) { effects.append(.identify(id)) }
    }
}

/// Carries out the steps of the agenda until no step is left.
extension Arbiter {
    mutating func processPendingWork(_ effects: inout [Effect]) {
        while let step = agenda.next(isSearchDue: canRunDeferredSearch) {
            switch step {
            case .reviewResources: reviewResources()
            case .reviewGrantCandidates: reviewGrantCandidates(&effects)
            case .reviewNewHolders: addRelativesOfNewHolders()
            case .reviewContentions: reviewContentions(&effects)
            case .searchForCycles: searchForCycles(&effects)
            }
        }
    }

    /// Grants the claims of the agenda that no claim blocks, in the order of their numbers. For each other claim,
    /// stores one claim that blocks it.
    private mutating func reviewGrantCandidates(_ effects: inout [Effect]) {
        let round = agenda.takeGrantCandidates()
        workCounter.add(round.count)
        var previous: ClaimID?
        var late: [ClaimID] = []
        for id in round where id != previous {
            previous = id
            guard let claim = claims[id], !claim.isHeld, waits.contains(id) else { continue }
            guard let watched = findBlocker(of: claim) else {
                waits.stopWatching(by: id)
                // Q1: A new holder perhaps allows the grant of earlier waiting claims of its program. These claims are
                // reviewed before this claim.
                if !agenda.newHolders.isEmpty, conflictsWithWaitersOfNewHolders(claim) {
                    late.append(id)
                    continue
                }
                if isConsented(claim, &effects), let claim = claims[id] { grantOrRefuse(claim, &effects) }
                continue
            }
            waits.watch(watched, by: id)
        }
        if late.isEmpty { return }
        addRelativesOfNewHolders()
        agenda.addGrantCandidates(late)
    }

    /// Called when all presenters have answered or forfeited. Grants the claim, or refuses it under policy `fail` if a
    /// presenter did not consent.
    private mutating func grantOrRefuse(_ claim: Claim, _ effects: inout [Effect]) {
        // P12: Under policy `fail`, a write without the consent of its presenters is refused.
        if bounds.policy == .fail, !claim.isAware, !unanswered(by: claim).isEmpty {
            return refuse(claim, .busy, &effects)
        }
        grant(claim, basis: .waited, &effects)
    }

    /// Called when a claim has ended, was suspended or was identified: reviews the claims that waited for it.
    mutating func releaseWatchers(of id: ClaimID) {
        agenda.addGrantCandidates(waits.releaseWatchers(of: id))
    }

    /// Q3: Reviews the waiting claims of each new holder's program. These claims are no longer blocked by claims that
    /// wait for the new holder.
    ///
    /// Holders of one process have the same related claims, so each process is looked up once. A holder with a purpose
    /// is also related to the claims with this purpose, so each such holder is looked up separately.
    private mutating func addRelativesOfNewHolders() {
        var processes: Set<ProcessID> = []
        for id in agenda.newHolders {
            guard let party = families.party(of: id), let holder = claims[id] else { continue }
            if let few = waiters(heldUpBy: holder, alone: party) {
                for waiter in few { addGrantCandidate(waiter) }
                continue
            }
            guard
                party.purpose != nil || party.process.map({ processes.insert($0).inserted }) ?? false,
                families.waiters.hasRelative(of: party)
            else { continue }
            families.waiters.forEachRelative(of: party) { addGrantCandidate($0) }
        }
        agenda.clearNewHolders()
    }

    private mutating func addGrantCandidate(_ relative: ClaimID) {
        // A claim that watches a holder is not reviewed: only a claim that watches a waiting claim can be granted now.
        guard let watched = waits[relative]?.watched, claims[watched]?.isHeld ?? true else {
            return agenda.addGrantCandidate(relative)
        }
    }

    /// The waiting claims on the holder's item that are of the holder's program. If a new holder has only one item, no
    /// other claims of its program must be reviewed.
    ///
    /// Nil if the holder or one of the waiting claims also needs another resource, or if many claims wait for the item.
    /// In these cases all waiting claims of the program are reviewed.
    private func waiters(heldUpBy holder: Claim, alone party: Party) -> [ClaimID]? {
        guard holder.isOnOneItem else { return nil }
        guard let waiting = locks[.item(holder.first.item)]?.waiting else { return [] }
        guard waiting.count <= Self.fewWaiters else { return nil }
        let all = Array(waiting.writers) + Array(waiting.readers)
        guard all.allSatisfy({ claims[$0]?.isOnOneItem ?? true }) else { return nil }
        return all.filter { families.party(of: $0)?.isExempt(from: party) ?? false }
    }

    private static let fewWaiters = 16
}
