// SPDX-License-Identifier: Apache-2.0
import Coordination

/// What one search for cycles looks at, and how much it may.
///
/// Of very many that wait for one thing, threads of one program are alike: each waits for those that hold it, and for those
/// before it. One of them stands for all on whom nothing hangs, and that is the first, because a cycle is told by its lowest
/// claim (D2).
final class CycleGround {
    let arbiter: Arbiter
    private let most: Int
    private(set) var steps = 0
    private var waiters: [Resource: (writers: [ClaimID], readers: [ClaimID])] = [:]
    private var holders: [Resource: [Kin: [ClaimID]]] = [:]

    init(_ arbiter: Arbiter, most: Int) {
        self.arbiter = arbiter
        self.most = most
    }

    var isExhausted: Bool { steps > most }

    /// Notes so many steps. Whether they may be taken.
    func take(_ count: Int) -> Bool {
        steps += count
        return !isExhausted
    }

    /// Those who wait for a thing and count, in the order of their numbers.
    func waiters(at resource: Resource) -> (writers: [ClaimID], readers: [ClaimID]) {
        if let known = waiters[resource] { return known }
        guard let waiting = arbiter.dockets[resource]?.waiting else { return ([], []) }
        let found = (some(of: waiting.writers), some(of: waiting.readers))
        waiters[resource] = found
        return found
    }

    private struct Kind: Hashable {
        let kin: Kin
        let conduct: UInt8
    }

    private func some(of queue: ClaimQueue) -> [ClaimID] {
        if queue.count <= arbiter.crowd.queue { return Array(queue) }
        guard take(queue.count / 8) else { return [] }
        var seen: Set<Kind> = []
        return queue.filter { id in
            guard let claim = arbiter.claims[id] else { return false }
            let isAlike = claim.nature == .handle && claim.isOnOneItem && !claim.passes && !claim.isPut
            if !isAlike || arbiter.hungOn.contains(id) { return true }
            return seen.insert(Kind(kin: claim.kin, conduct: claim.conduct.rawValue)).inserted
        }
    }

    /// Those who hold a thing.
    func holders(of resource: Resource) -> [Kin: [ClaimID]] {
        if let known = holders[resource] { return known }
        guard let held = arbiter.dockets[resource]?.held, take(held.count) else { return [:] }
        let found = Dictionary(grouping: Array(held.writers) + Array(held.readers)) {
            arbiter.claims[$0]?.kin ?? 0
        }
        holders[resource] = found
        return found
    }
}

/// A first look at who may be in a cycle.
///
/// It takes for waited for whoever is earlier in a queue or has a holder's program wait, and does not ask who holds up whom (Q3); so
/// it may see a cycle where there is none, but never misses one. It looks at each claim once, and at each program's hold on a
/// thing once, however many there are.
struct CycleSurvey {
    private enum Node: Hashable {
        case claim(ClaimID)
        /// What claims of one kin hold.
        case holders(Resource, Kin)
    }

    /// The claims that may be in a cycle, of those that are reached from some.
    static func entangled(from roots: Set<ClaimID>, on ground: CycleGround) -> Set<ClaimID> {
        var components = Components<Node>()
        for root in roots where !ground.isExhausted {
            components.explore(.claim(root)) { successors(of: $0, on: ground) }
        }
        if ground.isExhausted { return [] }
        var claims: Set<ClaimID> = []
        for case .claim(let id) in components.entangled { claims.insert(id) }
        return claims
    }

    private static func successors(of node: Node, on ground: CycleGround) -> [Node] {
        guard ground.take(1) else { return [] }
        switch node {
        case .claim(let id): return ground.arbiter.claims[id].map { successors(of: $0, on: ground) } ?? []
        case .holders(let resource, let kin):
            let holders = ground.holders(of: resource)[kin] ?? []
            guard ground.take(holders.count) else { return [] }
            return holders.flatMap { ground.arbiter.waited(by: $0) }.map { .claim($0) }
        }
    }

    private static func successors(of claim: Claim, on ground: CycleGround) -> [Node] {
        let arbiter = ground.arbiter
        var found: [Node] = arbiter.claimsAnswering(for: claim).map { .claim($0.waiting) }
        for stake in claim.stakes {
            // Whoever is earlier still is behind the last one before.
            let waiters = ground.waiters(at: stake.resource)
            for queue in [waiters.writers, waiters.readers] {
                if let last = queue.last(before: claim.id) { found.append(.claim(last)) }
            }
            for kin in ground.holders(of: stake.resource).keys where kin != claim.kin || kin == 0 {
                found.append(.holders(stake.resource, kin))
            }
        }
        return found
    }
}

extension [ClaimID] {
    /// Of claims in the order of their numbers, the last with a smaller one.
    fileprivate func last(before claim: ClaimID) -> ClaimID? {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            if self[middle] < claim { low = middle + 1 } else { high = middle }
        }
        return low > 0 ? self[low - 1] : nil
    }
}
