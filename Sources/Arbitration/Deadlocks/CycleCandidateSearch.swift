// SPDX-License-Identifier: Apache-2.0
import Coordination

/// A first look at who may be in a cycle.
///
/// It takes for waited for whoever is earlier in a queue or has a holder's program wait, and does not ask who holds up whom (Q3); so
/// it may see a cycle where there is none, but never misses one. It looks at each claim once, and at each program's hold on a
/// thing once, however many there are.
struct CycleCandidateSearch {
    private enum GraphNode: Hashable {
        case claim(ClaimID)
        /// What the program with this place among those that hold a thing has of it.
        case holding(Resource, Int)
        /// All holdings before a place, or from it on: so a claim leads to all but those of its kin by two steps.
        case before(Resource, Int)
        case from(Resource, Int)
        /// Those on whom all hang that a program holds, whatever that is.
        case dependencyTargets(HolderGroups.PartyKey)
        /// Those made within holders of a thing.
        case within(Resource)
    }

    private let graph: WaitForGraphView
    private var components = StronglyConnectedComponents<GraphNode>()

    init(on graph: WaitForGraphView) { self.graph = graph }

    /// The claims that may be in a cycle with each other, of those that are reached from a root and were not seen yet, the fewest
    /// first; and whether all were looked at.
    mutating func candidates(from root: ClaimID) -> (claims: [Set<ClaimID>], isComplete: Bool) {
        let graph = graph
        let isComplete = components.explore(.claim(root), while: { !graph.isSpent }) {
            Self.successors(of: $0, on: graph)
        }
        let sets = components.takeCyclic().map { nodes in
            Set(nodes.compactMap { node in if case .claim(let id) = node { id } else { nil } })
        }
        return (sets.filter { !$0.isEmpty }.sorted { $0.count < $1.count }, isComplete)
    }

    private static func successors(of node: GraphNode, on graph: WaitForGraphView) -> [GraphNode] {
        guard graph.take(1) else { return [] }
        switch node {
        case .claim(let id): return graph.arbiter.claims[id].map { successors(of: $0, on: graph) } ?? []
        case .before(let resource, let place):
            return place > 0 ? [.holding(resource, place - 1), .before(resource, place - 1)] : []
        case .from(let resource, let place):
            return place < graph.holdings(of: resource).all.count
                ? [.holding(resource, place), .from(resource, place + 1)] : []
        case .holding(let resource, let place):
            let all = graph.holdings(of: resource).all
            guard place < all.count else { return [] }
            return [.dependencyTargets(all[place].partyKey)]
                + graph.waitersOfProcess(of: all[place]).map { .claim($0.waiting) }
        case .dependencyTargets(let partyKey):
            return graph.dependencyTargetsOfAllThreads(of: partyKey).map { .claim($0) }
        case .within(let resource):
            let inner = graph.outer(at: resource).flatMap { graph.arbiter.nestedWaiters[$0] ?? [] }
            return graph.take(inner.count) ? inner.map { .claim($0) } : []
        }
    }

    private static func successors(of claim: Claim, on graph: WaitForGraphView) -> [GraphNode] {
        let arbiter = graph.arbiter
        let answering = arbiter.claimsAnswering(for: claim)
        guard graph.take(answering.count) else { return [] }
        var found: [GraphNode] = answering.map { .claim($0.waiting) }
        for lock in claim.requiredLocks {
            let resource = lock.resource
            // Whoever is earlier still is behind the last one before.
            let waiters = graph.waiters(at: resource)
            for queue in [waiters.writers, waiters.readers] {
                if let last = queue.last(before: claim.id) { found.append(.claim(last)) }
            }
            let holdings = graph.holdings(of: resource)
            if holdings.all.count <= 4 {
                let own = holdings.place(of: claim)
                found += holdings.all.indices.filter { $0 != own }.map { .holding(resource, $0) }
            } else if let own = holdings.place(of: claim) {
                found += [.before(resource, own), .from(resource, own + 1)]
            } else {
                found.append(.from(resource, 0))
            }
            if !graph.outer(at: resource).isEmpty { found.append(.within(resource)) }
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
