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
        if claim.nature == .nameChange { return awareClaims == 0 ? nil : awareHolder(keepingOut: claim) }
        // G1: any part that is disputed holds the whole claim back.
        return claim.firstOfParts { part in
            guard let docket = dockets[part.item] else { return nil }
            return waiter(in: docket, inTheWayOf: claim, part.access)
                ?? holder(in: docket, keepingOut: claim, part.access)
        }
    }

    /// G4.
    private func awareHolder(keepingOut claim: Claim) -> ClaimID? {
        claim.firstOfParts { part in
            guard let held = dockets[part.item]?.held else { return nil }
            let isInTheWay = { (id: ClaimID) in
                self.claims[id].map { $0.nature == .aware && self.keepsOut($0, claim, part.access) } ?? false
            }
            return held.writers.last(where: isInTheWay)
                ?? (part.access.isWrite ? held.readers.last(where: isInTheWay) : nil)
        }
    }

    /// Q1, Q2: those who wait stand in the way of later claims only, readers too if there is a writer between.
    private func waiter(in docket: Docket, inTheWayOf claim: Claim, _ access: Access) -> ClaimID? {
        if docket.waiting.isEmpty { return nil }
        let isInTheWay = { (id: ClaimID) in self.isInTheWay(waiter: id, of: claim) }
        // G3.
        return docket.waiting.writers.before(claim.id).last(where: isInTheWay)
            ?? (access.isWrite ? docket.waiting.readers.before(claim.id).last(where: isInTheWay) : nil)
    }

    private func holder(in docket: Docket, keepingOut claim: Claim, _ access: Access) -> ClaimID? {
        docket.held.writers.last { isInTheWay(holder: $0, asWriter: true, of: claim, access) }
            ?? (access.isWrite
                ? docket.held.readers.last { isInTheWay(holder: $0, asWriter: false, of: claim, access) }
                : nil)
    }

    /// Whether a waiting claim that meets another, and is earlier, stands in its way.
    private func isInTheWay(waiter id: ClaimID, of claim: Claim) -> Bool {
        guard let waiter = claims[id], !areExempt(waiter, claim) else { return false }
        // Q3, P6.
        guard let party = parties[claim.id], holderKinship.hasRelative(of: party) || desk.isDebtor(party)
        else { return true }
        return !isHeldUp(waiter, by: party)
    }

    /// Whether a holder that meets a claim stands in its way: it keeps it out, or X4 holds it back.
    func isInTheWay(holder id: ClaimID, asWriter: Bool, of claim: Claim, _ access: Access) -> Bool {
        guard let holder = claims[id], holder.id != claim.id else { return false }
        if keepsOut(holder, claim, access) { return true }
        // X4.
        return holder.suspension != nil && asWriter && access.isWrite
            && !(holder.isIdentified && claim.isIdentified)
    }

    /// Whether a holder keeps out a claim that it meets and that wants this access.
    func keepsOut(_ holder: Claim, _ claim: Claim, _ access: Access) -> Bool {
        switch holder.suspension {
        case nil: return !areExempt(holder, claim)
        // Y5.
        case .idle: return access.isWrite && !areExempt(holder, claim)
        // Y3, Y4, Y6.
        case .yielded, .stoodStill, .held, .deadlocked: return false
        }
    }

    /// X1, X5.
    func areExempt(_ one: Claim, _ other: Claim) -> Bool {
        guard one.isIdentified, other.isIdentified, let party = parties[one.id],
            let otherParty = parties[other.id]
        else { return false }
        return party.isExempt(from: otherParty)
    }

    /// Q3, P6: whether a party holds what a waiting claim waits for, or owes an answer for it, directly or in a chain.
    private func isHeldUp(_ waiter: Claim, by party: Party) -> Bool {
        var unexplored = [waiter]
        var found: Set<ClaimID> = [waiter.id]
        while let next = unexplored.popLast() {
            let isHere = next.firstOfParts { part in keepsOut(party, next, part) ? true : nil }
            if isHere != nil || desk.owes(party, to: next.id) { return true }
            next.forEachPart { part in
                guard let docket = dockets[part.item] else { return }
                let visit = { (id: ClaimID) in
                    guard !found.contains(id), let earlier = claims[id], !areExempt(earlier, next) else {
                        return
                    }
                    found.insert(id)
                    unexplored.append(earlier)
                }
                docket.waiting.writers.before(next.id).forEach(visit)
                if part.access.isWrite { docket.waiting.readers.before(next.id).forEach(visit) }
            }
        }
        return false
    }

    /// Whether the party holds a claim that keeps this one out on the part's item.
    private func keepsOut(_ party: Party, _ claim: Claim, _ part: Request.Part) -> Bool {
        guard let docket = dockets[part.item] else { return false }
        let isTheirs = { (id: ClaimID) in
            guard let holder = claims[id], let owner = parties[id], owner.isExempt(from: party) else {
                return false
            }
            return keepsOut(holder, claim, part.access)
        }
        return docket.held.writers.contains(where: isTheirs)
            || (part.access.isWrite && docket.held.readers.contains(where: isTheirs))
    }
}
