// SPDX-License-Identifier: Apache-2.0
import Coordination

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
    /// Of those claims the ones that wait for a thing, in the order of their numbers.
    private var waiting: [Resource: (writers: [ClaimID], readers: [ClaimID])] = [:]
    /// Of those claims the ones on which something hangs that claims of one kin hold.
    private var hungOnByAll: [Throng.Clan: [ClaimID]] = [:]

    init(among claims: Set<ClaimID>, on ground: CycleGround) {
        self.claims = claims
        self.ground = ground
    }

    /// D2: through the lowest claim that is in one.
    func first() -> Cycle? {
        var components = Components<ClaimID>()
        for id in claims {
            let isComplete = components.explore(id, while: { !ground.isSpent }) {
                successors(of: $0).map(\.claim)
            }
            if !isComplete { return nil }
        }
        return components.entangled.min().flatMap { cycle(through: $0) }
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

    /// Those for whom a claim waits, each with the holder in between, if there is one.
    private struct Found {
        var holders: [ClaimID: ClaimID?] = [:]

        /// One that stands in the way itself comes before one on which a holder hangs, and of holders the lowest.
        mutating func note(_ next: ClaimID, _ holder: ClaimID?) {
            guard let present = holders[next] else { return holders[next] = .some(holder) }
            if let known = present, holder.map({ $0 < known }) ?? true { holders[next] = .some(holder) }
        }
    }

    /// Those a claim waits for, the lowest number last.
    func successors(of id: ClaimID) -> [Successor] {
        guard let claim = arbiter.claims[id], ground.take(1) else { return [] }
        var found = Found()
        for answerer in arbiter.claimsAnswering(for: claim) where claims.contains(answerer.waiting) {
            found.note(answerer.waiting, answerer.holder)
        }
        if claim.nature != .episode {
            var holdUps = HoldUps(by: arbiter.parties[id])
            claim.forEachStake { stake in
                noteHeld(by: claim, at: stake, &found)
                noteWaiting(before: claim, at: stake, &holdUps, &found)
            }
        }
        return found.holders.map { Successor(claim: $0.key, holder: $0.value) }.sorted { $0.claim > $1.claim }
    }

    /// Waiting claims on which holders hang that stand in the way of a claim (D1, G4, X4).
    private func noteHeld(by claim: Claim, at stake: Stake, _ found: inout Found) {
        for holding in ground.holdings(of: stake.resource).all
        where (holding.clan.kin == 0 || holding.clan.kin != claim.kin) && ground.take(1) {
            let keepsOut = { (group: Throng.Group) in
                (group.kind.isWrite || stake.isWrite) && self.ground.take(1)
                    && (self.arbiter.claims[group.first].map {
                        self.arbiter.isObstacle($0, of: claim, at: stake)
                    } ?? false)
            }
            let groups = holding.groups.filter(keepsOut)
            guard let lowest = groups.map(\.first).min() else { continue }
            for id in hungOnByAll(holding.clan) where ground.take(1) { found.note(id, lowest) }
            var inTheWay = holding
            inTheWay.groups = groups
            for hung in ground.waitersOfProcess(of: inTheWay) where claims.contains(hung.waiting) {
                found.note(hung.waiting, hung.holder)
            }
        }
        for id in ground.outer(at: stake.resource) where ground.take(1) {
            guard let holder = arbiter.claims[id], let isWrite = holder.isWriting(stake.resource),
                isWrite || stake.isWrite, arbiter.isObstacle(holder, of: claim, at: stake)
            else { continue }
            for inner in arbiter.nested[id] ?? [] where claims.contains(inner) && ground.take(1) {
                if let waiting = arbiter.claims[inner], arbiter.hangs(holder, on: waiting) {
                    found.note(inner, id)
                }
            }
        }
    }

    /// Those who wait and stand in the way of a claim (Q1, Q3, D3), if they are known.
    private func noteWaiting(
        before claim: Claim, at stake: Stake, _ holdUps: inout HoldUps, _ found: inout Found
    ) {
        guard claim.nature != .nameChange, !claim.passes else { return }
        let waiting = waiters(at: stake.resource)
        for queue in [waiting.writers, stake.isWrite ? waiting.readers : []] {
            for id in queue {
                guard id < claim.id, ground.take(1) else { break }
                guard arbiter.isInTheWay(waiter: id, of: claim, at: stake.resource, &holdUps),
                    arbiter.claims[id]?.isIdentified ?? false
                else { continue }
                found.note(id, nil)
            }
        }
    }

    private func waiters(at resource: Resource) -> (writers: [ClaimID], readers: [ClaimID]) {
        if let known = waiting[resource] { return known }
        let all = ground.waiters(at: resource)
        guard ground.mayTake((all.writers.count + all.readers.count) / 8) else { return ([], []) }
        let found = (all.writers.filter(claims.contains), all.readers.filter(claims.contains))
        waiting[resource] = found
        return found
    }

    private func hungOnByAll(_ clan: Throng.Clan) -> [ClaimID] {
        if let known = hungOnByAll[clan] { return known }
        let all = ground.waitersHungOnByAll(of: clan)
        guard ground.mayTake(all.count / 8) else { return [] }
        let found = all.filter(claims.contains)
        hungOnByAll[clan] = found
        return found
    }
}
