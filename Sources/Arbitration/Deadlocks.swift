// SPDX-License-Identifier: Apache-2.0
public import Coordination

/// How cycles of claims are found, and what is done about them.
extension Arbiter {
    /// D2: looks at those through whom a new cycle may lead, and does something about each that is found.
    mutating func lookForCycles(_ effects: inout [Effect]) {
        let round = Set(suspects)
        suspects.removeAll(keepingCapacity: true)
        hungOn.formUnion(round.filter { claims[$0].map(isHungOn) ?? false })
        // A cycle leads through one on whom a holder hangs: through others it leads through one of those, too.
        let roots = round.isSubset(of: hungOn) ? round : hungOn
        guard mayBeCycles, let cycle = firstCycle(among: CycleSurvey.entangled(from: roots, in: self)) else {
            return
        }
        // There may be more than one; and what is done about one may end another.
        suspects += round
        breakUp(cycle, &effects)
    }

    /// D2: whether there is anything but queues to wait for: those lead to earlier claims alone.
    ///
    /// Who waits for a holder contests it (Y1), so only of contested ones it counts what hangs on them. Otherwise each
    /// of ten thousand who wait for one file would be gone through for each that comes.
    private var mayBeCycles: Bool {
        if !answering.isEmpty || !nested.isEmpty { return true }
        return contests.hasHolder { holder in
            parties[holder].map { waiterKinship.hasRelative(of: $0) } ?? false
        }
    }

    /// D2: claims whose program's hold on others has changed.
    mutating func suspectRelatives(of party: Party) {
        guard waiterKinship.hasRelative(of: party) else { return }
        waiterKinship.forEachRelative(of: party) { suspects.append($0) }
    }

    /// D2, Q3: who was held up by way of this claim, which waits no longer, may stand in somebody's way now.
    mutating func suspectPassersBy(of claim: Claim) {
        // No longer waiting itself, it has all be looked at on whom anything hangs.
        if !hungOn.isEmpty { suspects.append(claim.id) }
    }

    /// Whether anything hangs on a waiting claim, or an answer does: otherwise no cycle leads through it.
    private func isHungOn(_ claim: Claim) -> Bool {
        if claim.isHeld { return false }
        if !claim.within.isEmpty || claim.answering != nil { return true }
        return parties[claim.id].map { holderKinship.hasRelative(of: $0) } ?? false
    }

    /// D2: through the lowest claim that is in one; all but those given are known to be in none.
    func firstCycle(among claims: Set<ClaimID>? = nil) -> CycleSearch.Cycle? {
        let search = CycleSearch(among: claims ?? Set(waits.keys))
        var components = Components<ClaimID>()
        for id in search.claims {
            components.explore(id) { search.successors(of: $0, in: self).map(\.claim) }
        }
        return components.entangled.min().flatMap { search.cycle(through: $0, in: self) }
    }

    /// D3, D4.
    private mutating func breakUp(_ cycle: CycleSearch.Cycle, _ effects: inout [Effect]) {
        let waiting = cycle.compactMap { claims[$0.waiting] }
        let tell = { (way: Deadlock.Way, claim: ClaimID) in
            Effect.deadlock(Deadlock(cycle: cycle.flatMap(\.claims), way, claim))
        }
        if let claim = waiting.filter(isHeldBackByQueueAlone).min(by: { $0.id < $1.id }) {
            effects.append(tell(.passes, claim.id))
            claims[claim.id]?.passes = true
            unsettled.append(claim.id)
        } else if let holder = cycle.compactMap({ $0.holder.flatMap { claims[$0] } })
            .filter({ $0.nature == .handle && !$0.isFullySuspended }).min(by: Self.yieldsBefore)
        {
            effects.append(tell(.suspends, holder.id))
            suspend(holder.id, .deadlocked, &effects)
        } else if let claim = waiting.filter(\.isAware).max(by: { $0.id < $1.id }) {
            effects.append(tell(.refuses, claim.id))
            refuse(claim, .deadlock, &effects)
        } else if let claim = waiting.max(by: { $0.id < $1.id }) {
            effects.append(tell(.proceeds, claim.id))
            grant(claim, basis: .proceeded, &effects)
        }
    }

    private func isHeldBackByQueueAlone(_ claim: Claim) -> Bool {
        guard !claim.passes, waits[claim.id]?.watched != nil, claim.nature != .nameChange else {
            return false
        }
        return claim.firstOfStakes { stake in
            dockets[stake.resource].flatMap { holder(in: $0, keepingOut: claim, asWriter: stake.isWrite) }
        } == nil
    }

    private static func yieldsBefore(_ one: Claim, _ other: Claim) -> Bool {
        one.onlyReads == other.onlyReads ? one.id < other.id : one.onlyReads
    }

    /// D1: whether a held claim cannot end before a waiting one has.
    private func hangs(_ holder: Claim, on claim: Claim) -> Bool {
        guard holder.nature == .handle || holder.nature == .aware, holder.isIdentified, claim.isIdentified
        else {
            return false
        }
        if claim.within.contains(holder.id) { return true }
        guard areOfOneProgram(holder, claim), let party = parties[holder.id], let other = parties[claim.id]
        else {
            return false
        }
        return
            !(party.process == other.process && party.thread != 0 && other.thread != 0
            && party.thread != other.thread)
    }

    /// D1: waiting claims made to give the answers that a claim waits for, or made within such a claim.
    func claimsAnswering(for claim: Claim) -> [(waiting: ClaimID, holder: ClaimID?)] {
        if answering.isEmpty || desk.inquiries[claim.id] == nil { return [] }
        var found: [(waiting: ClaimID, holder: ClaimID?)] = []
        for id in openQuestions(for: claim.id).flatMap({ answering[$0.id] ?? [] }) {
            guard let answerer = claims[id], answerer.isIdentified else { continue }
            if !answerer.isHeld { found.append((id, nil)) }
            // Its program may well do other things meanwhile, so nothing else hangs on the answer.
            for inner in nested[id] ?? [] where claims[inner]?.isIdentified ?? false {
                found.append((inner, id))
            }
        }
        return found
    }

    /// The waiting claims on which a held one hangs, in the order of their numbers.
    public func waited(by holder: ClaimID) -> [ClaimID] {
        guard let claim = claims[holder], claim.isHeld else { return [] }
        var found = Set(nested[holder] ?? [])
        if let party = parties[holder] { waiterKinship.forEachRelative(of: party) { found.insert($0) } }
        return found.filter { claims[$0].map { hangs(claim, on: $0) } ?? false }.sorted()
    }
}

/// Whom waiting claims wait for, of a set of claims that may be in a cycle (D1, D2).
final class CycleSearch {
    /// A waiting claim, and the holder between it and the next; nil if the next itself stands in the way.
    struct Step {
        let waiting: ClaimID
        var holder: ClaimID?
        var claims: [ClaimID] { [waiting] + (holder.map { [$0] } ?? []) }
    }
    typealias Cycle = [Step]

    struct Successor {
        let claim: ClaimID
        let holder: ClaimID?
    }

    let claims: Set<ClaimID>
    /// Those who wait for a holder, of those claims: all who wait for one thing ask the same of all who hold it.
    private var waited: [ClaimID: [ClaimID]] = [:]

    init(among claims: Set<ClaimID>) { self.claims = claims }

    /// Depth first, lower numbers first.
    func cycle(through start: ClaimID, in arbiter: Arbiter) -> Cycle? {
        var path: Cycle = [Step(waiting: start)]
        var unexplored = [successors(of: start, in: arbiter)]
        var visited: Set<ClaimID> = []
        while let top = unexplored.indices.last {
            guard let next = unexplored[top].popLast() else {
                unexplored.removeLast()
                path.removeLast()
                continue
            }
            path[top].holder = next.holder
            if next.claim == start { return path }
            guard visited.insert(next.claim).inserted else { continue }
            path.append(Step(waiting: next.claim))
            unexplored.append(successors(of: next.claim, in: arbiter))
        }
        return nil
    }

    /// Those a claim waits for, the lowest number last.
    func successors(of id: ClaimID, in arbiter: Arbiter) -> [Successor] {
        guard let claim = arbiter.claims[id] else { return [] }
        var found: [ClaimID: ClaimID?] = [:]
        let note = { [claims] (next: ClaimID, holder: ClaimID?) in
            guard claims.contains(next) else { return }
            // One that stands in the way itself comes before one on which a holder hangs, and of holders the lowest.
            guard let present = found[next] else { return found[next] = .some(holder) }
            if let known = present, holder.map({ $0 < known }) ?? true { found[next] = .some(holder) }
        }
        for answerer in arbiter.claimsAnswering(for: claim) { note(answerer.waiting, answerer.holder) }
        arbiter.forEachObstacle(of: claim) { obstacle in
            guard obstacle.isHeld else { return obstacle.isIdentified ? note(obstacle.id, nil) : () }
            for next in waited(by: obstacle.id, in: arbiter) { note(next, obstacle.id) }
        }
        return found.map { Successor(claim: $0.key, holder: $0.value) }.sorted { $0.claim > $1.claim }
    }

    private func waited(by holder: ClaimID, in arbiter: Arbiter) -> [ClaimID] {
        if let known = waited[holder] { return known }
        let found = arbiter.waited(by: holder).filter { claims.contains($0) }
        waited[holder] = found
        return found
    }
}

extension Arbiter {
    /// Everybody who stands in the way of a waiting claim (G4, Q1, Q3, X4, D3).
    func forEachObstacle(of claim: Claim, _ body: (Claim) -> Void) {
        guard claim.nature != .episode else { return }
        var holdUps = HoldUps(by: parties[claim.id])
        claim.forEachStake { stake in
            guard let docket = dockets[stake.resource] else { return }
            let holders = Array(docket.held.writers) + (stake.isWrite ? Array(docket.held.readers) : [])
            for holder in holders.compactMap({ claims[$0] }) where isObstacle(holder, of: claim, at: stake) {
                body(holder)
            }
            guard claim.nature != .nameChange, !claim.passes else { return }
            let waiting = docket.waiting
            let earlier =
                Array(waiting.writers.before(claim.id))
                + (stake.isWrite ? Array(waiting.readers.before(claim.id)) : [])
            for id in earlier where isInTheWay(waiter: id, of: claim, &holdUps) { claims[id].map(body) }
        }
    }

    private func isObstacle(_ holder: Claim, of claim: Claim, at stake: Stake) -> Bool {
        guard let isWriting = holder.isWriting(stake.resource), holder.id != claim.id else { return false }
        if claim.nature == .nameChange {
            return holder.nature == .aware && keepsOut(holder, claim, asWriter: stake.isWrite)
        }
        return isInTheWay(holder: holder.id, asWriter: isWriting, of: claim, asWriter: stake.isWrite)
    }
}
