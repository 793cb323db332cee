// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The state of a held claim while it blocks another claim or a presenter.
struct Contention: Sendable {
    /// The moment from which its time counts (Y6).
    let since: Instant
    /// The moment at which it is fully suspended (Y6, Y10).
    var end: Instant
    /// The moment from which an unchanged writer lets readers pass even if it has read nothing (Y9).
    let unchangedGrace: Instant
    /// One waiting claim that it blocks; nil if only a presenter waits for its end.
    var blockedClaim: ClaimID?
    /// The moment of its next observation; nil if it is never observed (Y7).
    var nextObservation: Instant?
    var seen: Observation?
    /// The beginning of the contention, or the last observation that differed from the one before (Y4, Y5).
    var lastChange: Instant
    var timer: Instant?
}

/// All contentions, by the holder and by the claim that it blocks.
struct ContentionTable: Sendable {
    private var byHolder: [ClaimID: Contention] = [:]
    private var holders: [ClaimID: Set<ClaimID>] = [:]

    var count: Int { byHolder.count + holders.count }
    var isEmpty: Bool { byHolder.isEmpty }
    var blockedClaims: [ClaimID] { byHolder.values.compactMap(\.blockedClaim) }

    /// The holders that have a waiting claim as `blockedClaim`, in no order.
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
