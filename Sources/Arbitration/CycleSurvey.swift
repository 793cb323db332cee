// SPDX-License-Identifier: Apache-2.0
import Coordination

/// A first look at who may be in a cycle.
///
/// It takes for waited for whoever is earlier in a queue or has a holder's program wait, and does not ask who holds up whom (Q3) nor
/// which thread is which; so it may see a cycle where there is none, but never misses one. It looks at each claim
/// once, and at each program's hold on a thing once, however many there are.
struct CycleSurvey {
    private enum Node: Hashable {
        case claim(ClaimID)
        /// What claims of one kin hold.
        case holders(Resource, Kin)
        /// Whoever waits and is a relative of a kin.
        case relatives(Kin)
    }

    private var kins: [Resource: [Kin: [ClaimID]]] = [:]
    /// One holder of each kin: all have the same relatives.
    private var examples: [Kin: ClaimID] = [:]

    /// The claims that may be in a cycle, of those that are reached from some.
    static func entangled(from roots: Set<ClaimID>, in arbiter: Arbiter) -> Set<ClaimID> {
        var survey = CycleSurvey()
        var components = Components<Node>()
        for root in roots { components.explore(.claim(root)) { survey.successors(of: $0, in: arbiter) } }
        var claims: Set<ClaimID> = []
        for case .claim(let id) in components.entangled { claims.insert(id) }
        return claims
    }

    private mutating func successors(of node: Node, in arbiter: Arbiter) -> [Node] {
        switch node {
        case .claim(let id): return arbiter.claims[id].map { successors(of: $0, in: arbiter) } ?? []
        case .holders(let resource, let kin):
            let holders = kins[resource]?[kin] ?? []
            let inner = holders.flatMap { arbiter.nested[$0] ?? [] }.map { Node.claim($0) }
            // Nobody's kin have nothing in common.
            if kin == 0 { return inner + holders.flatMap { relatives(of: $0, in: arbiter) } }
            examples[kin] = holders.first
            return inner + [.relatives(kin)]
        case .relatives(let kin): return examples[kin].map { relatives(of: $0, in: arbiter) } ?? []
        }
    }

    private func relatives(of holder: ClaimID, in arbiter: Arbiter) -> [Node] {
        guard let party = arbiter.parties[holder] else { return [] }
        var relatives: [Node] = []
        arbiter.waiterKinship.forEachRelative(of: party) { relatives.append(.claim($0)) }
        return relatives
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
