// SPDX-License-Identifier: Apache-2.0
import Coordination

/// What is known of a holder while it keeps somebody out.
struct Contention: Sendable {
    /// From when on it counts for that (Y6).
    let since: Instant
    /// When everybody passes (Y6, Y10).
    var end: Instant
    /// From when on a writer that has changed nothing lets readers pass, though it has read nothing either (Y9).
    let unchangedGrace: Instant
    /// One who is kept out; nil if a presenter alone waits for it to be over.
    var blockedClaim: ClaimID?
    /// When it is looked at next; nil if it never is (Y7).
    var nextObservation: Instant?
    var seen: Observation?
    /// The contest's beginning, or when something else was seen than before (Y4, Y5).
    var lastChange: Instant
    var timer: Instant?
}

/// Every contest, by the holder and by the claim that is kept out.
struct ContentionTable: Sendable {
    private var byHolder: [ClaimID: Contention] = [:]
    private var holders: [ClaimID: Set<ClaimID>] = [:]

    var count: Int { byHolder.count + holders.count }
    var isEmpty: Bool { byHolder.isEmpty }
    var blockedClaims: [ClaimID] { byHolder.values.compactMap(\.blockedClaim) }

    /// Those for whom a waiting claim is the one that is kept out, in no order.
    func holders(blocking claim: ClaimID) -> Set<ClaimID> { holders[claim] ?? [] }

    func hasHolder(where matches: (ClaimID) -> Bool) -> Bool { byHolder.keys.contains(where: matches) }

    subscript(holder: ClaimID) -> Contention? {
        get { byHolder[holder] }
        set {
            let former = byHolder.removeValue(forKey: holder)?.blockedClaim
            if let newValue { byHolder[holder] = newValue }
            guard former != newValue?.blockedClaim else { return }
            if let former {
                holders[former]?.remove(holder)
                if holders[former]?.isEmpty ?? false { holders[former] = nil }
            }
            if let blockedClaim = newValue?.blockedClaim { holders[blockedClaim, default: []].insert(holder) }
        }
    }
}
