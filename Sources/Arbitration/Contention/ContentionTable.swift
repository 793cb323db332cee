// SPDX-License-Identifier: Apache-2.0
import Coordination

/// All contentions, indexed by the holder, by the blocked claim, and by the resources that the holder holds.
///
/// Invariants (I3):
///
/// - Only a held claim has a contention, and 0 ≤ contentions ≤ held claims.
/// - `holders` lists each holder under the `blockedClaim` of its contention, and nowhere else.
/// - Each holder with a contention is in `contended` at every resource that it holds. A holder in `nonblocking` at any
///   resource has no contention.
/// - `fullSince` of a resource is set when the number of contentions reaches its limit, and cleared by
///   ``endFullness(at:)`` (Y11).
struct ContentionTable: Sendable {
    private var byHolder: [ClaimID: Contention] = [:]
    private var holders: [ClaimID: Set<ClaimID>] = [:]
    /// For each resource for which claims wait: the holders that are known to be contended or nonblocking.
    private var resources: [Resource: ResourceContention] = [:]

    var count: Int { byHolder.count + holders.count }
    var isEmpty: Bool { byHolder.isEmpty }
    var blockedClaims: [ClaimID] { byHolder.values.compactMap(\.blockedClaim) }

    /// The contention of a holder; nil if no claim and no presenter waits for the holder.
    subscript(holder: ClaimID) -> Contention? { byHolder[holder] }

    /// The holders that have this waiting claim as their `blockedClaim`, in no order.
    func holders(blocking claim: ClaimID) -> Set<ClaimID> { holders[claim] ?? [] }

    /// Sets, replaces or removes the contention of a holder. Returns whether a contention began or ended.
    mutating func set(_ contention: Contention?, of holder: ClaimID) -> Bool {
        let former = byHolder.removeValue(forKey: holder)
        if let contention { byHolder[holder] = contention }
        reindex(holder, from: former?.blockedClaim, to: contention?.blockedClaim)
        return (former == nil) != (contention == nil)
    }

    /// Changes the contention of a holder without copying it. Does nothing if the holder has no contention.
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
    /// The holders with a contention.
    var contended = ClaimQueue()
    /// Holders that block none of the claims that wait now, and so have no contention.
    var nonblocking: Set<ClaimID> = []
    /// Y11: The start of the earliest contention, set when the number of contentions reaches its limit. Nil while the
    /// number is below the limit.
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

    /// Y11: Whether fewer than `slots` holders of a resource have a contention.
    func hasRoom(at resource: Resource, of slots: Int) -> Bool {
        (resources[resource]?.contended.count ?? 0) < slots
    }

    /// Y11: Notes at a resource that a holder has a contention. `slots` is the largest number of contentions at the
    /// resource.
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

    /// Notes at a resource that the contention of a holder has ended.
    mutating func endContention(of holder: ClaimID, at resource: Resource) {
        change(at: resource) { $0.contended.remove(holder) }
    }

    /// Removes a holder from a resource, because it has ended or is suspended for all claims.
    mutating func leave(_ holder: ClaimID, at resource: Resource) {
        change(at: resource) { resourceContention in
            resourceContention.contended.remove(holder)
            resourceContention.nonblocking.remove(holder)
        }
    }

    /// Notes at a resource that a holder blocks no waiting claim at present.
    mutating func markNonblocking(_ holder: ClaimID, at resource: Resource) {
        change(at: resource) { $0.nonblocking.insert(holder) }
    }

    /// Forgets which holders block no waiting claim, because no claim waits for the resource any more.
    mutating func resetNonblocking(at resource: Resource) { change(at: resource) { $0.nonblocking = [] } }

    /// Forgets which holders block no waiting claim. From now on ``HolderGroups`` stores this for the resource.
    mutating func handOverNonblocking(at resource: Resource) { resources[resource]?.nonblocking = [] }

    /// Y11: Called when the number of contentions is below its limit: new contentions no longer get the start of the
    /// earliest one.
    mutating func endFullness(at resource: Resource) { change(at: resource) { $0.fullSince = nil } }

    /// Removes the records of a resource that no claim requires any more.
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
