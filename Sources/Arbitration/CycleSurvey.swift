// SPDX-License-Identifier: Apache-2.0
import Coordination

/// A first look at whether there can be a cycle at all.
///
/// It takes for waited for whoever is earlier in a queue or has a holder's program wait, and does not ask who holds up whom (Q3) nor
/// which thread is which; so it may see a cycle where there is none, but never misses one. It looks at each claim
/// once, and at each program's hold on a thing once, however many there are.
struct CycleSurvey {
    private enum Node: Hashable {
        case claim(ClaimID)
        /// What claims of one kin hold.
        case holders(Resource, Kin)
    }

    /// The claims that were looked at.
    private(set) var reached: Set<ClaimID> = []
    private var isOpen: [Node: Bool] = [:]
    private var kins: [Resource: [Kin: [ClaimID]]] = [:]

    /// Goes from claim to claim, depth first; one that is come upon again while it is still being followed closes a
    /// cycle.
    mutating func mayFindCycle(from roots: Set<ClaimID>, in arbiter: Arbiter) -> Bool {
        var isFound = false
        for root in roots where isOpen[.claim(root)] == nil {
            var path: [(node: Node, next: [Node])] = []
            open(.claim(root), &path, in: arbiter)
            while let top = path.indices.last {
                guard let next = path[top].next.popLast() else {
                    isOpen[path.removeLast().node] = false
                    continue
                }
                switch isOpen[next] {
                case nil: open(next, &path, in: arbiter)
                case true?: isFound = true
                case false?: continue
                }
            }
        }
        return isFound
    }

    private mutating func open(
        _ node: Node, _ path: inout [(node: Node, next: [Node])], in arbiter: Arbiter
    ) {
        isOpen[node] = true
        path.append((node, successors(of: node, in: arbiter)))
    }

    private mutating func successors(of node: Node, in arbiter: Arbiter) -> [Node] {
        switch node {
        case .claim(let id):
            reached.insert(id)
            guard let claim = arbiter.claims[id] else { return [] }
            return successors(of: claim, in: arbiter)
        case .holders(let resource, let kin):
            var waiting: Set<ClaimID> = []
            for (place, holder) in (kins[resource]?[kin] ?? []).enumerated() {
                waiting.formUnion(arbiter.nested[holder] ?? [])
                // Those of one kin have the same relatives.
                guard place == 0 || kin == 0, let party = arbiter.parties[holder] else { continue }
                arbiter.waiterKinship.forEachRelative(of: party) { waiting.insert($0) }
            }
            return waiting.map { .claim($0) }
        }
    }

    private mutating func successors(of claim: Claim, in arbiter: Arbiter) -> [Node] {
        var found: [Node] = arbiter.claimsAnswering(for: claim).map { .claim($0.waiting) }
        for stake in claim.stakes {
            guard let docket = arbiter.dockets[stake.resource] else { continue }
            // Whoever is earlier still is behind the last one before.
            for queue in [docket.waiting.writers, docket.waiting.readers] {
                if let last = queue.before(claim.id).last { found.append(.claim(last)) }
            }
            if kins[stake.resource] == nil {
                let holders = Array(docket.held.writers) + Array(docket.held.readers)
                kins[stake.resource] = Dictionary(grouping: holders) { arbiter.claims[$0]?.kin ?? 0 }
            }
            for kin in (kins[stake.resource] ?? [:]).keys where kin != claim.kin || kin == 0 {
                found.append(.holders(stake.resource, kin))
            }
        }
        return found
    }
}
