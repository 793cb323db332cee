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
    }

    /// Where the search stands with a node: when it was found, and the first that it leads back to (Tarjan's numbers).
    private struct Mark {
        let number: Int
        var least: Int
        var isPending = true
    }

    /// Those who can reach each other: whoever is in a cycle is among them.
    private var entangled: Set<ClaimID> = []
    private var marks: [Node: Mark] = [:]
    private var pending: [Node] = []
    private var kins: [Resource: [Kin: [ClaimID]]] = [:]

    /// The claims that may be in a cycle, of those that are reached from some.
    static func entangled(from roots: Set<ClaimID>, in arbiter: Arbiter) -> Set<ClaimID> {
        var survey = CycleSurvey()
        for root in roots { survey.explore(.claim(root), in: arbiter) }
        return survey.entangled
    }

    /// Goes from node to node, depth first, without recursion: a chain may be very long.
    private mutating func explore(_ root: Node, in arbiter: Arbiter) {
        if marks[root] != nil { return }
        var path = [(node: root, next: open(root, in: arbiter))]
        while let top = path.indices.last {
            guard let next = path[top].next.popLast() else {
                let node = path.removeLast().node
                close(node)
                if let above = path.last?.node { note(above, leadsTo: marks[node]?.least) }
                continue
            }
            if next == path[top].node, case .claim(let id) = next { entangled.insert(id) }
            if let known = marks[next] {
                if known.isPending { note(path[top].node, leadsTo: known.number) }
            } else {
                path.append((next, open(next, in: arbiter)))
            }
        }
    }

    private mutating func open(_ node: Node, in arbiter: Arbiter) -> [Node] {
        marks[node] = Mark(number: marks.count, least: marks.count)
        pending.append(node)
        return successors(of: node, in: arbiter)
    }

    private mutating func note(_ node: Node, leadsTo number: Int?) {
        guard let number, let entry = marks.index(forKey: node), marks.values[entry].isPending else { return }
        marks.values[entry].least = min(marks.values[entry].least, number)
    }

    /// Once all that follows from a node is known: if it leads back to nothing earlier, what is pending since then is one
    /// component.
    private mutating func close(_ node: Node) {
        guard let mark = marks[node], mark.least == mark.number, let start = pending.lastIndex(of: node)
        else { return }
        let component = pending[start...]
        for member in component { marks[member]?.isPending = false }
        if component.count > 1 {
            for case .claim(let id) in component { entangled.insert(id) }
        }
        pending.removeSubrange(start...)
    }

    private mutating func successors(of node: Node, in arbiter: Arbiter) -> [Node] {
        switch node {
        case .claim(let id):
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
