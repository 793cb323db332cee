// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Finds the identified claims of a party's relatives without looking at all claims (Q3).
struct Kinship: Sendable {
    private var own: [ProcessID: Set<ClaimID>] = [:]
    private var below: [ProcessID: Set<ClaimID>] = [:]

    mutating func insert(_ claim: ClaimID, of party: Party) {
        guard let process = party.process else { return }
        own[process, default: []].insert(claim)
        for ancestor in party.ancestors { below[ancestor, default: []].insert(claim) }
    }

    mutating func remove(_ claim: ClaimID, of party: Party) {
        guard let process = party.process else { return }
        Self.remove(claim, under: process, from: &own)
        for ancestor in party.ancestors { Self.remove(claim, under: ancestor, from: &below) }
    }

    /// Whether any claim here is exempt from the party's.
    func hasRelative(of party: Party) -> Bool {
        guard let process = party.process else { return false }
        return own[process] != nil || below[process] != nil || party.ancestors.contains { own[$0] != nil }
    }

    /// Calls the body with every claim here that is exempt from the party's, in no order.
    func forEachRelative(of party: Party, _ body: (ClaimID) -> Void) {
        guard let process = party.process else { return }
        own[process]?.forEach(body)
        below[process]?.forEach(body)
        for ancestor in party.ancestors { own[ancestor]?.forEach(body) }
    }

    private static func remove(
        _ claim: ClaimID, under process: ProcessID, from index: inout [ProcessID: Set<ClaimID>]
    ) {
        guard let found = index.index(forKey: process) else { return }
        index.values[found].remove(claim)
        if index.values[found].isEmpty { index.remove(at: found) }
    }
}
