// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Finds sets of claims that may be in a cycle. This is the fast first step of a search.
///
/// The search assumes that a claim waits for every earlier claim and every holder in its queues. In fact, by rule Q3, a
/// claim does not wait for claims that wait for its own program. So the search can report a set without a cycle, but it
/// never misses a cycle.
struct CycleCandidateSearch {
    private enum GraphNode: Hashable {
        case claim(ClaimID)
        /// The hold of one program on a resource; the number is the index of the program among the holders.
        case holding(Resource, Int)
        /// The holds of all programs with a smaller index than the given one. The case `from` has the holds of all
        /// programs from an index on. A claim leads to one node of each case, and so to the holds of all programs
        /// except the claim's own.
        case before(Resource, Int)
        case from(Resource, Int)
        /// The waiting claims on which every claim of a program depends.
        case dependencyTargets(HolderGroups.PartyKey)
        /// The waiting claims that were made within claims that hold the resource.
        case within(Resource)
    }

    private let graph: WaitForGraphView
    private var components = StronglyConnectedComponents<GraphNode>()

    init(on graph: WaitForGraphView) { self.graph = graph }

    /// Returns sets of claims that may be in a cycle with each other, the smallest set first.
    ///
    /// Visits the claims that the root leads to, except claims that an earlier call has visited. `isComplete` is false
    /// if the steps were used up before all these claims were visited.
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
            let inner = graph.outer(at: resource).flatMap { graph.arbiter.waitForGraph.nested(in: $0) }
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
            // Of the earlier claims, only the last is added, because the search reaches all other earlier claims from
            // this claim.
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
    /// The last claim of a sorted list with a smaller number than `claim`.
    fileprivate func last(before claim: ClaimID) -> ClaimID? {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            if self[middle] < claim { low = middle + 1 } else { high = middle }
        }
        return low > 0 ? self[low - 1] : nil
    }
}
