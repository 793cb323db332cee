// SPDX-License-Identifier: Apache-2.0
import Coordination

/// All contentions, by the holder, by the claim that it blocks, and by the resources that it holds.
///
/// Invariants (I3):
///
/// - Only a held claim has a contention, and 0 ≤ contentions ≤ held claims.
/// - `holders` lists each holder at the `blockedClaim` of its contention, and nowhere else.
/// - Each holder with a contention is `contended` at every resource that it holds. A holder that is `nonblocking`
///   there has none.
/// - `fullSince` of a resource is set from the moment at which all slots are taken until ``endFullness(at:)`` (Y11).
struct ContentionTable: Sendable {
    private var byHolder: [ClaimID: Contention] = [:]
    private var holders: [ClaimID: Set<ClaimID>] = [:]
    /// The holders of each resource for which claims wait.
    private var resources: [Resource: ResourceContention] = [:]

    var count: Int { byHolder.count + holders.count }
    var isEmpty: Bool { byHolder.isEmpty }
    var blockedClaims: [ClaimID] { byHolder.values.compactMap(\.blockedClaim) }

    /// The contention of a holder; nil if no claim and no presenter waits for it.
    subscript(holder: ClaimID) -> Contention? { byHolder[holder] }

    /// The holders that have a waiting claim as `blockedClaim`, in no order.
    func holders(blocking claim: ClaimID) -> Set<ClaimID> { holders[claim] ?? [] }

    /// Sets, replaces or ends the contention of a holder; returns whether it began or ended.
    mutating func set(_ contention: Contention?, of holder: ClaimID) -> Bool {
        let former = byHolder.removeValue(forKey: holder)
        if let contention { byHolder[holder] = contention }
        reindex(holder, from: former?.blockedClaim, to: contention?.blockedClaim)
        return (former == nil) != (contention == nil)
    }

    /// Changes the contention of a holder in place, if there is one.
    mutating func update(_ holder: ClaimID, _ body: (inout Contention) -> Void) {
        guard let entry = byHolder.index(forKey: holder) else { return }
        let former = byHolder.values[entry].blockedClaim
        body(&byHolder.values[entry])
        reindex(holder, from: former, to: byHolder.values[entry].blockedClaim)
    }

    private mutating func reindex(_ holder: ClaimID, from former: ClaimID?, to blockedClaim: ClaimID?) {
        guard former != blockedClaim else { return }
        if let former {
            holders[former]?.remove(holder)
            if holders[former]?.isEmpty ?? false { holders[former] = nil }
        }
        if let blockedClaim { holders[blockedClaim, default: []].insert(holder) }
    }
}

/// The holders of one resource for which claims wait.
private struct ResourceContention: Sendable {
    /// The contended holders.
    var contended = ClaimQueue()
    /// Holders without a contention that block no waiting claim now, but may do so later.
    var nonblocking: Set<ClaimID> = []
    /// If all slots were taken: the beginning of the earliest contention (Y11).
    var fullSince: Instant?

    var isEmpty: Bool { contended.isEmpty && nonblocking.isEmpty && fullSince == nil }
}

/// The contended holders of each resource.
extension ContentionTable {
    /// Whether no resource has contended or nonblocking holders.
    var hasNoResources: Bool { resources.isEmpty }

    func contended(at resource: Resource) -> ClaimQueue? { resources[resource]?.contended }
    func nonblocking(at resource: Resource) -> Set<ClaimID> { resources[resource]?.nonblocking ?? [] }
    func fullSince(at resource: Resource) -> Instant? { resources[resource]?.fullSince }

    /// Y11: whether fewer than `slots` holders are contended.
    func hasRoom(at resource: Resource, of slots: Int) -> Bool {
        (resources[resource]?.contended.count ?? 0) < slots
    }

    /// Notes that a contended holder holds a resource; there are `slots` for such holders.
    mutating func join(_ holder: Claim, at resource: Resource, of slots: Int) {
        change(at: resource) { resourceContention in
            resourceContention.contended.insert(holder.id, holder.partyNumber)
            resourceContention.nonblocking.remove(holder.id)
        }
        guard let present = resources[resource], present.contended.count >= slots, present.fullSince == nil
        else { return }
        let since = present.contended.compactMap { byHolder[$0]?.since }.min()
        change(at: resource) { $0.fullSince = since }
    }

    /// Notes that the contention of a holder has ended.
    mutating func endContention(of holder: ClaimID, at resource: Resource) {
        change(at: resource) { $0.contended.remove(holder) }
    }

    /// Removes a holder that has ended or is fully suspended.
    mutating func leave(_ holder: ClaimID, at resource: Resource) {
        change(at: resource) { resourceContention in
            resourceContention.contended.remove(holder)
            resourceContention.nonblocking.remove(holder)
        }
    }

    /// Notes a holder that blocks no waiting claim.
    mutating func markNonblocking(_ holder: ClaimID, at resource: Resource) {
        change(at: resource) { $0.nonblocking.insert(holder) }
    }

    /// Forgets the nonblocking holders, because no claim waits any more.
    mutating func resetNonblocking(at resource: Resource) { change(at: resource) { $0.nonblocking = [] } }

    /// Forgets the nonblocking holders, because the groups of the holders know them from now on.
    mutating func handOverNonblocking(at resource: Resource) { resources[resource]?.nonblocking = [] }

    /// Y11: Ends the common beginning of all contentions.
    mutating func endFullness(at resource: Resource) { change(at: resource) { $0.fullSince = nil } }

    /// Removes the records of a resource that is locked no more.
    mutating func remove(_ resource: Resource) { resources[resource] = nil }

    private mutating func change(at resource: Resource, _ body: (inout ResourceContention) -> Void) {
        guard let place = resources.index(forKey: resource) else {
            var added = ResourceContention()
            body(&added)
            if !added.isEmpty { resources[resource] = added }
            return
        }
        body(&resources.values[place])
        if resources.values[place].isEmpty { resources.remove(at: place) }
    }
}
