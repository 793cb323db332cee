// SPDX-License-Identifier: Apache-2.0
public import Coordination

/// How cycles of claims are found, and what is done about them.
extension Arbiter {
    /// D2: looks at those through whom a new cycle may lead, and does something about each that is found.
    mutating func lookForCycles(_ effects: inout [Effect]) {
        let isAll = cycleWatch.isSearching || mayCatchUp
        if isAll { cycleWatch.due = nil }
        var round = Set(suspects)
        suspects.removeAll(keepingCapacity: true)
        for id in round where claims[id].map(isHungOn) ?? false { hungOn.insert(id) }
        guard mayBeCycles else { return }
        if isAll { round.formUnion(hungOn) }
        let roots = isAll ? hungOn : roots(of: round)
        guard !roots.isEmpty else { return }
        guard maySearch else { return putOffSearch() }
        let ground = CycleGround(self, most: crowd.steps - cycleWatch.steps)
        let entangled = CycleSurvey.entangled(from: roots, on: ground)
        let cycle = entangled.isEmpty ? nil : firstCycle(among: entangled, on: ground)
        cycleWatch.steps += ground.steps
        guard let cycle else { return ground.isExhausted ? putOffSearch() : () }
        // There may be more than one; and what is done about one may end another.
        suspects += round
        breakUp(cycle, &effects)
    }

    /// D2: whether there is anything but queues to wait for: those lead to earlier claims alone.
    private var mayBeCycles: Bool { !answering.isEmpty || !nested.isEmpty || !hungOn.isEmpty }

    /// Where to begin, if a cycle may lead through these: a cycle leads through one on whom a holder hangs.
    ///
    /// One on whom none hangs, and behind whom none waits who is known, is waited for by none. Through others the cycle leads
    /// through one of those, too; and a claim that has gone may have let others be held up by way of it.
    private func roots(of round: Set<ClaimID>) -> Set<ClaimID> {
        let isElsewhere = round.contains { id in
            !hungOn.contains(id) && (claims[id].map { $0.isHeld || isWaitedForInQueue($0) } ?? true)
        }
        return isElsewhere ? hungOn : round.intersection(hungOn)
    }

    private func isWaitedForInQueue(_ claim: Claim) -> Bool {
        claim.firstOfStakes { stake in
            guard let waiting = dockets[stake.resource]?.waiting else { return nil }
            let isOne = waiting.writers.hasKnown(after: claim.id) || waiting.readers.hasKnown(after: claim.id)
            return isOne ? true : nil
        } ?? false
    }

    /// D2: waiting claims on which a claim hangs that has just become held, or known.
    mutating func suspectThoseHung(on holder: Claim, _ party: Party) {
        waiterKinship.forEachCounterpart(of: party) { suspects.append($0) }
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
        return parties[claim.id].map { holderKinship.hasCounterpart(of: $0) } ?? false
    }

    /// D2: through the lowest claim that is in one.
    func firstCycle() -> CycleSearch.Cycle? {
        firstCycle(among: Set(waits.keys), on: CycleGround(self, most: .max))
    }

    /// All but those given are known to be in none.
    private func firstCycle(among claims: Set<ClaimID>, on ground: CycleGround) -> CycleSearch.Cycle? {
        let search = CycleSearch(among: claims, on: ground)
        var components = Components<ClaimID>()
        for id in search.claims { components.explore(id) { search.successors(of: $0).map(\.claim) } }
        if ground.isExhausted { return nil }
        return components.entangled.min().flatMap { search.cycle(through: $0) }
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
    func hangs(_ holder: Claim, on claim: Claim) -> Bool {
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
        if let party = parties[holder] { waiterKinship.forEachCounterpart(of: party) { found.insert($0) } }
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
    private let ground: CycleGround
    private var arbiter: Arbiter { ground.arbiter }
    /// Those who wait for a holder, of those claims: all who wait for one thing ask the same of all who hold it.
    private var waited: [ClaimID: [ClaimID]] = [:]
    /// Those who hold a thing and hang on any of those claims.
    private var hanging: [Resource: (writers: [ClaimID], readers: [ClaimID])] = [:]

    init(among claims: Set<ClaimID>, on ground: CycleGround) {
        self.claims = claims
        self.ground = ground
    }

    /// Depth first, lower numbers first.
    func cycle(through start: ClaimID) -> Cycle? {
        var path: Cycle = [Step(waiting: start)]
        var unexplored = [successors(of: start)]
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
            unexplored.append(successors(of: next.claim))
        }
        return nil
    }

    /// Those a claim waits for, the lowest number last.
    func successors(of id: ClaimID) -> [Successor] {
        guard let claim = arbiter.claims[id], ground.take(1) else { return [] }
        var found: [ClaimID: ClaimID?] = [:]
        let note = { [claims] (next: ClaimID, holder: ClaimID?) in
            guard claims.contains(next) else { return }
            // One that stands in the way itself comes before one on which a holder hangs, and of holders the lowest.
            guard let present = found[next] else { return found[next] = .some(holder) }
            if let known = present, holder.map({ $0 < known }) ?? true { found[next] = .some(holder) }
        }
        for answerer in arbiter.claimsAnswering(for: claim) { note(answerer.waiting, answerer.holder) }
        forEachObstacle(of: claim) { obstacle in
            guard obstacle.isHeld else { return obstacle.isIdentified ? note(obstacle.id, nil) : () }
            for next in waited(by: obstacle.id) { note(next, obstacle.id) }
        }
        return found.map { Successor(claim: $0.key, holder: $0.value) }.sorted { $0.claim > $1.claim }
    }

    /// Everybody who stands in the way of a waiting claim (G4, Q1, Q3, X4, D3), and may be in a cycle.
    private func forEachObstacle(of claim: Claim, _ body: (Claim) -> Void) {
        guard claim.nature != .episode else { return }
        var holdUps = HoldUps(by: arbiter.parties[claim.id])
        claim.forEachStake { stake in
            let holders = holders(at: stake.resource)
            for id in holders.writers + (stake.isWrite ? holders.readers : []) where ground.take(1) {
                if let holder = arbiter.claims[id], arbiter.isObstacle(holder, of: claim, at: stake) {
                    body(holder)
                }
            }
            guard claim.nature != .nameChange, !claim.passes else { return }
            let waiting = ground.waiters(at: stake.resource)
            for id in waiting.writers + (stake.isWrite ? waiting.readers : [])
            where id < claim.id && claims.contains(id) && ground.take(1) {
                if arbiter.isInTheWay(waiter: id, of: claim, at: stake.resource, &holdUps) {
                    arbiter.claims[id].map(body)
                }
            }
        }
    }

    private func holders(at resource: Resource) -> (writers: [ClaimID], readers: [ClaimID]) {
        if let known = hanging[resource] { return known }
        let held = arbiter.dockets[resource]?.held
        let isHanging = { (id: ClaimID) in self.ground.take(1) && !self.waited(by: id).isEmpty }
        let found = (held?.writers.filter(isHanging) ?? [], held?.readers.filter(isHanging) ?? [])
        hanging[resource] = found
        return found
    }

    private func waited(by holder: ClaimID) -> [ClaimID] {
        if let known = waited[holder] { return known }
        let found = arbiter.waited(by: holder).filter { claims.contains($0) }
        waited[holder] = found
        return found
    }
}

extension Arbiter {
    func isObstacle(_ holder: Claim, of claim: Claim, at stake: Stake) -> Bool {
        guard let isWriting = holder.isWriting(stake.resource), holder.id != claim.id else { return false }
        if claim.nature == .nameChange {
            return holder.nature == .aware && keepsOut(holder, claim, asWriter: stake.isWrite)
        }
        return isInTheWay(holder: holder.id, asWriter: isWriting, of: claim, asWriter: stake.isWrite)
    }
}
