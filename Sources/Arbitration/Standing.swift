// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Who stands in whose way. Nothing here changes anything.
extension Arbiter {
    /// Some claim that stands in the way of one that waits or is about to; nil if it can be granted (G2).
    ///
    /// Looked for from the claim's own place towards the front, holders last: in a long queue the nearest
    /// claim is nearly always in the way, and the one to change its mind last.
    func inTheWay(of claim: Claim) -> ClaimID? {
        // G4.
        if claim.nature == .episode { return nil }
        if claim.nature == .nameChange { return aware.isEmpty ? nil : awareHolder(keepingOut: claim) }
        // G1: any stake that is disputed holds the whole claim back.
        return claim.firstOfStakes { stake in
            guard let docket = dockets[stake.resource] else { return nil }
            return waiter(in: docket, at: stake, inTheWayOf: claim)
                ?? holder(in: docket, keepingOut: claim, stake)
        }
    }

    /// G4.
    private func awareHolder(keepingOut claim: Claim) -> ClaimID? {
        claim.firstOfStakes { stake in
            guard let held = dockets[stake.resource]?.held else { return nil }
            let isInTheWay = { (id: ClaimID) in
                self.claims[id].map {
                    $0.nature == .aware && self.keepsOut($0, claim, asWriter: stake.isWrite)
                }
                    ?? false
            }
            if !throngs.isEmpty, let throng = throngs[stake.resource] {
                return throng.obstacle(of: claim, asWriter: stake.isWrite) {
                    $0.kind.nature == .aware && isInTheWay($1)
                }
            }
            return held.writers.lastStranger(of: claim.kin, where: isInTheWay)
                ?? (stake.isWrite ? held.readers.lastStranger(of: claim.kin, where: isInTheWay) : nil)
        }
    }

    /// Q1, Q2: those who wait stand in the way of later claims only, readers too if there is a writer between.
    private func waiter(in docket: Docket, at stake: Stake, inTheWayOf claim: Claim) -> ClaimID? {
        // D3.
        if docket.waiting.isEmpty || claim.passes { return nil }
        var holdUps = HoldUps(by: parties[claim.id])
        let isInTheWay = { (id: ClaimID) in
            self.isInTheWay(waiter: id, of: claim, at: stake.resource, &holdUps)
        }
        if isMaster(claim, of: stake.resource) {
            // Its program keeps out all the others.
            return waitingNameChanges.filter { $0 < claim.id && meets($0, at: stake) && isInTheWay($0) }.max()
        }
        // G3.
        return obstacle(in: docket.waiting.writers, of: claim, stake, isInTheWay)
            ?? (stake.isWrite ? obstacle(in: docket.waiting.readers, of: claim, stake, isInTheWay) : nil)
    }

    /// Of writers each looks at the one before it, so that they are a chain. A reader looks at writers alone, and very many
    /// readers are not to look all at the same one: each would have to look again when that one gives up.
    private func obstacle(
        in queue: ClaimQueue, of claim: Claim, _ stake: Stake, _ isInTheWay: (ClaimID) -> Bool
    ) -> ClaimID? {
        // Q1: the others may come later.
        if stake.isWrite, let last = queue.last(before: claim.id), isInTheWay(last) { return last }
        return queue.someStranger(of: claim.kin, before: claim.id, seed: claim.id, where: isInTheWay)
    }

    /// Whether a claim stakes something that a stake meets.
    private func meets(_ id: ClaimID, at stake: Stake) -> Bool {
        claims[id]?.isWriting(stake.resource).map { $0 || stake.isWrite } ?? false
    }

    /// Q5.
    func isCrowded(_ resource: Resource) -> Bool { !crowded.isEmpty && crowded.contains(resource) }

    /// Q5: so many wait for something now.
    ///
    /// Very many leave between one change and the next back: for each change all are looked at who wait there.
    mutating func noteLength(of resource: Resource, _ count: Int) {
        if count > crowd.queue {
            guard crowded.insert(resource).inserted else { return }
            // Those who passed others by way of a third wait for them now.
            suspectAllHungOn()
        } else if !crowded.isEmpty, count <= crowd.queue / 2, crowded.remove(resource) != nil {
            suspectAllHungOn()
            // Those who are held back by the rule alone may go.
            guard let waiting = dockets[resource]?.waiting else { return }
            unsettled += Array(waiting.writers) + Array(waiting.readers)
        }
    }

    /// Whether somebody waits and is earlier whom a claim meets, and passes if it is granted (Q3).
    func meetsEarlierWaiters(_ claim: Claim) -> Bool { !hungOn.isEmpty && hasEarlierWaiters(claim) }

    /// Whether anybody at all waits who is earlier and whom a claim meets.
    private func hasEarlierWaiters(_ claim: Claim) -> Bool {
        claim.firstOfStakes { stake in
            guard let waiting = dockets[stake.resource]?.waiting else { return nil }
            let hasEarlier = waiting.writers.hasAny(before: claim.id)
            return hasEarlier || (stake.isWrite && waiting.readers.hasAny(before: claim.id)) ? true : nil
        } ?? false
    }

    /// Whether a claim meets somebody who waits, is earlier, and may go because of what a relative holds since this round.
    func meetsWaitersOfNewHolders(_ claim: Claim) -> Bool {
        // G4.
        if claim.nature == .nameChange { return false }
        // Of ten thousand who are granted together, each has as many new holders, and nobody before it.
        if !hasEarlierWaiters(claim) { return false }
        // What the claim's own kin hold lets nobody else pass.
        var kins: Set<Kin> = [claim.kin]
        let others = newHolders.compactMap { id in
            claims[id].flatMap { $0.kin == 0 || kins.insert($0.kin).inserted ? parties[id] : nil }
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
        claim.firstOfStakes { stake in
            guard let waiting = dockets[stake.resource]?.waiting, !waiting.isEmpty else { return nil }
            let met =
                waiting.writers.lastStranger(of: claim.kin, before: claim.id, where: matches)
                ?? (stake.isWrite
                    ? waiting.readers.lastStranger(of: claim.kin, before: claim.id, where: matches) : nil)
            return met.map { _ in true }
        } ?? false
    }

    func holder(in docket: Docket, keepingOut claim: Claim, _ stake: Stake) -> ClaimID? {
        let isWrite = stake.isWrite
        if !throngs.isEmpty, let throng = throngs[stake.resource] {
            return throng.obstacle(of: claim, asWriter: isWrite) { group, id in
                isInTheWay(holder: id, asWriter: group.kind.isWrite, of: claim, asWriter: isWrite)
            }
        }
        return docket.held.writers.someStranger(of: claim.kin, seed: claim.id) {
            isInTheWay(holder: $0, asWriter: true, of: claim, asWriter: isWrite)
        }
            ?? (isWrite
                ? docket.held.readers.someStranger(of: claim.kin, seed: claim.id) {
                    isInTheWay(holder: $0, asWriter: false, of: claim, asWriter: true)
                } : nil)
    }

    /// Whether a waiting claim that meets another there, and is earlier, stands in its way; `holdUps` are by the latter's party.
    func isInTheWay(waiter id: ClaimID, of claim: Claim, at resource: Resource, _ holdUps: inout HoldUps)
        -> Bool
    {
        counter.add()
        guard let waiter = claims[id], !areExempt(waiter, claim) else { return false }
        // Q3, P6.
        guard holdUps.arePossible(in: self) else { return true }
        // Q5.
        if isCrowded(resource) { return waiter.nature == .nameChange || !isMaster(claim, of: resource) }
        return !holdUps.hold(up: waiter, in: self)
    }

    /// Whether a holder that meets a claim stands in its way: it keeps it out, or X4 holds it back.
    func isInTheWay(
        holder id: ClaimID, asWriter holderWrites: Bool, of claim: Claim, asWriter isWrite: Bool
    ) -> Bool {
        counter.add()
        guard let holder = claims[id], holder.id != claim.id else { return false }
        if keepsOut(holder, claim, asWriter: isWrite) { return true }
        // X4, after G4.
        return holder.suspension != nil && claim.nature != .nameChange && holderWrites && isWrite
            && !(holder.isIdentified && claim.isIdentified) && !holder.isAtEase(beside: claim)
    }

    /// Whether a holder keeps out a claim that it meets on a stake to write or to read.
    func keepsOut(_ holder: Claim, _ claim: Claim, asWriter isWrite: Bool) -> Bool {
        // G4.
        if claim.nature == .episode || (claim.nature == .nameChange && holder.nature != .aware) {
            return false
        }
        switch holder.suspension {
        case nil: return !areExempt(holder, claim)
        // Y5, Y9.
        case .idle, .unchanged: return isWrite && !areExempt(holder, claim)
        // Y3, Y4, Y6, D3.
        case .yielded, .stoodStill, .held, .deadlocked: return false
        }
    }

    /// X1, X5, X6.
    func areExempt(_ one: Claim, _ other: Claim) -> Bool {
        one.isAtEase(beside: other) || areOfOneProgram(one, other)
    }

    /// X1, X5.
    func areOfOneProgram(_ one: Claim, _ other: Claim) -> Bool {
        guard one.isIdentified, other.isIdentified, let party = parties[one.id],
            let otherParty = parties[other.id]
        else { return false }
        return party.isExempt(from: otherParty)
    }
}
