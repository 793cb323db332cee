// SPDX-License-Identifier: Apache-2.0
import Coordination

/// D1, D2: Finds the edges and the cycles in a set of claims that may be in a cycle.
final class CycleFinder {
    /// One waiting claim of a cycle. If it waits for a held claim that depends on the next waiting claim, `holder` is
    /// the held claim. If it waits for the next waiting claim directly, `holder` is nil.
    struct CycleEdge {
        let waiting: ClaimID
        var holder: ClaimID?
        var claims: [ClaimID] { [waiting] + (holder.map { [$0] } ?? []) }
    }
    typealias Cycle = [CycleEdge]

    struct Successor {
        let claim: ClaimID
        let holder: ClaimID?
    }

    let claims: Set<ClaimID>
    private let graph: WaitForGraphView
    private var arbiter: Arbiter { graph.arbiter }
    /// For each resource: the claims of the set that wait for the resource, in the order of their numbers.
    private var waiting: [Resource: (writers: [ClaimID], readers: [ClaimID])] = [:]
    /// For each program: the claims of the set on which all claims of the program depend.
    private var targetsOfAllThreads: [HolderGroups.PartyKey: [ClaimID]] = [:]

    init(among claims: Set<ClaimID>, on graph: WaitForGraphView) {
        self.claims = claims
        self.graph = graph
    }

    /// D2: Returns the cycle through the lowest of all claims that are in a cycle.
    func first() -> Cycle? {
        var components = StronglyConnectedComponents<ClaimID>()
        for id in claims {
            let isComplete = components.explore(id, while: { !graph.isSpent }) {
                successors(of: $0).map(\.claim)
            }
            if !isComplete { return nil }
        }
        return components.cyclicNodes.min().flatMap { cycle(through: $0) }
    }

    /// Returns a cycle through a claim, found by a depth-first search that tries lower numbers first.
    func cycle(through start: ClaimID) -> Cycle? {
        var path: Cycle = [CycleEdge(waiting: start)]
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
            path.append(CycleEdge(waiting: next.claim))
            unexplored.append(successors(of: next.claim))
        }
        return nil
    }

    /// The claims for which a claim waits. If the wait goes through a holder, the holder is stored with the claim.
    private struct Found {
        var holders: [ClaimID: ClaimID?] = [:]

        /// Stores a claim for which the present claim waits. A direct wait replaces a wait through a holder. A holder
        /// with a lower number replaces a holder with a higher one.
        mutating func note(_ next: ClaimID, _ holder: ClaimID?) {
            guard let present = holders[next] else { return holders[next] = .some(holder) }
            if let known = present, holder.map({ $0 < known }) ?? true { holders[next] = .some(holder) }
        }
    }

    /// Returns the claims for which a claim waits, the lowest number last.
    func successors(of id: ClaimID) -> [Successor] {
        guard let claim = arbiter.claims[id], graph.take(1) else { return [] }
        var found = Found()
        for answerer in arbiter.claimsAnswering(for: claim) where claims.contains(answerer.waiting) {
            found.note(answerer.waiting, answerer.holder)
        }
        if claim.nature != .pendingSave {
            var blockingAnalysis = BlockingAnalysis(by: arbiter.families.party(of: id))
            claim.forEachRequiredLock { lock in
                noteHeld(by: claim, at: lock, &found)
                noteWaiting(before: claim, at: lock, &blockingAnalysis, &found)
            }
        }
        return found.holders.map { Successor(claim: $0.key, holder: $0.value) }.sorted { $0.claim > $1.claim }
    }

    /// D1, G4, X4: Stores the waiting claims on which the holders that block `claim` depend.
    private func noteHeld(by claim: Claim, at lock: RequiredLock, _ found: inout Found) {
        for holding in graph.holdings(of: lock.resource).all
        where (holding.partyKey.partyNumber == 0 || holding.partyKey.partyNumber != claim.partyNumber)
            && graph.take(1)
        {
            let keepsOut = { (group: HolderGroups.HolderGroup) in
                (group.kind.isWrite || lock.isWrite) && self.graph.take(1)
                    && (self.arbiter.claims[group.first].map {
                        self.arbiter.isBlockingHolder($0, of: claim, at: lock)
                    } ?? false)
            }
            let groups = holding.groups.filter(keepsOut)
            guard let lowest = groups.map(\.first).min() else { continue }
            for id in targetsOfAllThreads(holding.partyKey) where graph.take(1) { found.note(id, lowest) }
            var blockingHold = holding
            blockingHold.groups = groups
            for hung in graph.waitersOfProcess(of: blockingHold) where claims.contains(hung.waiting) {
                found.note(hung.waiting, hung.holder)
            }
        }
        for id in graph.outer(at: lock.resource) where graph.take(1) {
            guard let holder = arbiter.claims[id], let isWrite = holder.isWriting(lock.resource),
                isWrite || lock.isWrite, arbiter.isBlockingHolder(holder, of: claim, at: lock)
            else { continue }
            for inner in arbiter.waitForGraph.nested(in: id) where claims.contains(inner) && graph.take(1) {
                if let waiting = arbiter.claims[inner], arbiter.depends(holder, on: waiting) {
                    found.note(inner, id)
                }
            }
        }
    }

    /// Q1, Q3, D3: Stores the identified waiting claims that block this claim.
    private func noteWaiting(
        before claim: Claim, at lock: RequiredLock, _ blockingAnalysis: inout BlockingAnalysis,
        _ found: inout Found
    ) {
        guard claim.nature != .nameChange, !claim.overtakes else { return }
        let waiting = waiters(at: lock.resource)
        for queue in [waiting.writers, lock.isWrite ? waiting.readers : []] {
            for id in queue {
                guard id < claim.id, graph.take(1) else { break }
                guard arbiter.isBlocker(waiter: id, of: claim, at: lock.resource, &blockingAnalysis),
                    arbiter.claims[id]?.isIdentified ?? false
                else { continue }
                found.note(id, nil)
            }
        }
    }

    private func waiters(at resource: Resource) -> (writers: [ClaimID], readers: [ClaimID]) {
        if let known = waiting[resource] { return known }
        let all = graph.waiters(at: resource)
        guard graph.mayTake((all.writers.count + all.readers.count) / 8) else { return ([], []) }
        let found = (all.writers.filter(claims.contains), all.readers.filter(claims.contains))
        waiting[resource] = found
        return found
    }

    private func targetsOfAllThreads(_ partyKey: HolderGroups.PartyKey) -> [ClaimID] {
        if let known = targetsOfAllThreads[partyKey] { return known }
        let all = graph.dependencyTargetsOfAllThreads(of: partyKey)
        guard graph.mayTake(all.count / 8) else { return [] }
        let found = all.filter(claims.contains)
        targetsOfAllThreads[partyKey] = found
        return found
    }
}
