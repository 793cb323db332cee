// SPDX-License-Identifier: Apache-2.0
import Coordination

/// What each event means.
extension Arbiter {
    mutating func add(_ claim: Claim) {
        let previous = claims.updateValue(claim, forKey: claim.id)
        precondition(previous == nil, "a claim is made once")
        if claim.nature == .aware { aware.insert(claim.id) }
        if claim.nature == .batch { batches.insert(claim.id) }
        if let question = claim.answering { answering[question, default: []].append(claim.id) }
    }

    mutating func claim(_ request: Request, _ effects: inout [Effect]) {
        var claim = Claim(request)
        claim.setStakes(stakes(of: claim))
        dispute(claim)
        if let watched = inTheWay(of: claim) {
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

    /// X1, X3: looks again at the claim, at those who waited for it, and at what it contests.
    mutating func identify(_ id: ClaimID, as party: Party) {
        guard var claim = claims[id], !claim.isIdentified else { return }
        claim.isAsked = true
        claim.isIdentified = true
        claim.kin = kinships.join(party)
        claims[id] = claim
        name(claim)
        parties[id] = party
        renewInThrongs(id)
        unnamed.remove(id)
        if claim.isHeld {
            holderKinship.insert(id, of: party)
            if fortify(claim) || claim.kin == 0 { newHolders.append(id) }
            suspectThoseHung(on: claim, party)
            // D1: who it is counts for what was made within it as well.
            suspects += nested[id] ?? []
            shaken.append(id)
            if claim.nature == .episode { joinTurns(claim, party) }
        } else {
            waiterKinship.insert(id, of: party)
            unsettled.append(id)
            suspects.append(id)
            shakeContested(by: claim)
        }
        releaseWatchers(of: id)
    }

    mutating func refuse(_ claim: Claim, _ refusal: Refusal, _ effects: inout [Effect]) {
        effects.append(.refuse(claim.id, refusal))
        refused[claim.id] = LastWait(
            obstacle: waits[claim.id]?.watched, questions: openQuestions(for: claim.id))
        shakeContested(by: claim)
        suspectPassersBy(of: claim)
        forget(claim, &effects)
    }

    /// Removes every trace of a claim, and looks again at those who waited for it.
    private mutating func forget(_ claim: Claim, _ effects: inout [Effect]) {
        let isLast = leave(claim)
        settleDispute(claim)
        if !desk.inquiries.isEmpty { leaveTurns(claim.id, atOnce: claim.isAware, &effects) }
        if claim.nature == .aware { aware.remove(claim.id) }
        if claim.nature == .batch { batches.remove(claim.id) }
        if let question = claim.answering {
            answering[question]?.removeAll { $0 == claim.id }
            if answering[question]?.isEmpty ?? false { answering[question] = nil }
        }
        claims.removeValue(forKey: claim.id)
        stopWaiting(claim)
        setContest(of: claim, nil)
        if let party = parties.removeValue(forKey: claim.id) {
            kinships.leave(party)
            if claim.isHeld {
                holderKinship.remove(claim.id, of: party)
                if isLast || claim.kin == 0 || claim.suspension != nil { suspectRelatives(of: party) }
            } else {
                waiterKinship.remove(claim.id, of: party)
            }
        }
        releaseWatchers(of: claim.id)
    }

    /// Removes what is known of a claim because it waits.
    mutating func stopWaiting(_ claim: Claim) {
        guard waits.removeValue(forKey: claim.id) != nil else { return }
        unnamed.remove(claim.id)
        hungOn.remove(claim.id)
        waitingNameChanges.remove(claim.id)
        noteResolving(claim) { $0.remove(claim.id) }
        for outer in claim.within {
            nested[outer]?.removeAll { $0 == claim.id }
            if nested[outer]?.isEmpty ?? false { nested[outer] = nil }
        }
    }

    /// Notes in the queues whose a claim is.
    private mutating func name(_ claim: Claim) {
        claim.forEachStake { stake in
            guard let place = dockets.index(forKey: stake.resource) else { return }
            if claim.isHeld {
                dockets.values[place].held.name(claim.id, claim.kin, stake.isWrite)
            } else {
                dockets.values[place].waiting.name(claim.id, claim.kin, stake.isWrite)
            }
        }
    }

    /// Enters a claim in the docket of each of its stakes. Returns whether it holds anything of which its kin held nothing alike.
    @discardableResult
    mutating func enter(_ claim: Claim) -> Bool {
        var isFirst = false
        claim.forEachStake { if enter(claim, $0) { isFirst = true } }
        return isFirst
    }

    @discardableResult
    mutating func enter(_ claim: Claim, _ stake: Stake) -> Bool {
        guard claim.isHeld else {
            let waiters = dockets[stake.resource, default: Docket()].wait(claim.id, claim.kin, stake.isWrite)
            noteLength(of: stake.resource, waiters)
            gatherThrong(at: stake.resource)
            return false
        }
        let holders = dockets[stake.resource, default: Docket()].hold(claim.id, claim.kin, stake.isWrite)
        if !contests.isEmpty, contests[claim.id] != nil { join(claim, at: stake.resource) }
        if holders > crowd.holders || !throngs.isEmpty { joinThrong(claim, at: stake, of: holders) }
        return fortify(claim, at: stake)
    }

    /// Returns whether its kin hold nothing alike any more of something it held.
    @discardableResult
    mutating func leave(_ claim: Claim) -> Bool {
        var isLast = false
        claim.forEachStake { if leave(claim, $0) { isLast = true } }
        return isLast
    }

    @discardableResult
    mutating func leave(_ claim: Claim, _ stake: Stake) -> Bool {
        guard let place = dockets.index(forKey: stake.resource) else { return false }
        if claim.isHeld {
            dockets.values[place].held.remove(claim.id, stake.isWrite)
            leaveStandoff(claim.id, at: stake.resource)
            if !throngs.isEmpty {
                leaveThrong(claim.id, at: stake.resource, of: dockets.values[place].held.count)
            }
        } else {
            dockets.values[place].waiting.remove(claim.id, stake.isWrite)
            if dockets.values[place].waiting.isEmpty { disperse(at: stake.resource) }
            noteLength(of: stake.resource, dockets.values[place].waiting.count)
        }
        if dockets.values[place].isEmpty { dockets.remove(at: place) }
        return abandon(claim, at: stake)
    }

    /// Enters a claim by each link that it resolves, or takes it away there.
    mutating func noteResolving(_ claim: Claim, _ body: (inout Set<ClaimID>) -> Void) {
        claim.forEachPart { part in
            guard let link = part.via else { return }
            body(&resolving[link, default: []])
            if resolving[link]?.isEmpty ?? false { resolving[link] = nil }
        }
    }

    /// Notes what is to be known of a claim because it waits.
    mutating func noteWaiting(_ claim: Claim) {
        for outer in claim.within { nested[outer, default: []].append(claim.id) }
        if claim.nature == .nameChange { waitingNameChanges.insert(claim.id) }
        noteResolving(claim) { $0.insert(claim.id) }
    }
}
