// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The holders of one resource for which claims wait.
struct ResourceContention: Sendable {
    /// The contended holders.
    var contended = ClaimQueue()
    /// Holders without a contention that block no waiting claim now, but may do so later.
    var nonblocking: Set<ClaimID> = []
    /// If all slots were taken: the beginning of the earliest contention (Y11).
    var fullSince: Instant?

    var isEmpty: Bool { contended.isEmpty && nonblocking.isEmpty && fullSince == nil }
}

/// How contentions begin and end.
extension Arbiter {
    mutating func setContention(of holder: Claim, _ contention: Contention?) {
        let former = contentions[holder.id]
        contentions[holder.id] = contention
        guard (former == nil) != (contention == nil) else { return }
        holder.forEachRequiredLock { lock in
            if contention == nil {
                changeResourceContention(at: lock.resource) { $0.contended.remove(holder.id) }
                noteRoom(at: lock.resource)
            } else {
                join(holder, at: lock.resource)
            }
        }
        regroup(holder.id)
    }

    /// Notes a holder that blocks no waiting claim.
    mutating func markNonblocking(_ holder: Claim) {
        holder.forEachRequiredLock { lock in
            guard let lockQueue = lockQueues[lock.resource], !lockQueue.waiting.isEmpty,
                holderGroups[lock.resource] == nil
            else { return }
            changeResourceContention(at: lock.resource) { $0.nonblocking.insert(holder.id) }
        }
    }

    /// Notes that a contended holder now holds another resource, too.
    mutating func join(_ holder: Claim, at resource: Resource) {
        changeResourceContention(at: resource) { resourceContention in
            resourceContention.contended.insert(holder.id, holder.partyNumber)
            resourceContention.nonblocking.remove(holder.id)
        }
        guard let resourceContention = resourceContentions[resource],
            resourceContention.contended.count >= limits.holders,
            resourceContention.fullSince == nil
        else { return }
        let since = resourceContention.contended.compactMap { contentions[$0]?.since }.min()
        changeResourceContention(at: resource) { $0.fullSince = since }
    }

    /// Y11: Notes that a slot is free, because a contention ended.
    private mutating func noteRoom(at resource: Resource) {
        if holderGroups[resource] != nil || resourceContentions[resource]?.fullSince != nil {
            agenda.addContentionSlot(at: resource)
        }
    }

    /// Y11: whether there is a slot for one more contention.
    func hasRoom(at resource: Resource) -> Bool {
        (resourceContentions[resource]?.contended.count ?? 0) < limits.holders
    }

    /// Y11: Ends the common beginning of all contentions once there are free slots again.
    mutating func endFullness(at resource: Resource) {
        guard hasRoom(at: resource), resourceContentions[resource]?.fullSince != nil else { return }
        changeResourceContention(at: resource) { $0.fullSince = nil }
    }

    /// Removes a holder that has ended or is fully suspended.
    mutating func leaveResourceContentions(_ holder: Claim) {
        if resourceContentions.isEmpty { return }
        holder.forEachRequiredLock { leaveResourceContention(holder.id, at: $0.resource) }
    }

    mutating func leaveResourceContention(_ holder: ClaimID, at resource: Resource) {
        if resourceContentions.isEmpty { return }
        changeResourceContention(at: resource) { resourceContention in
            resourceContention.contended.remove(holder)
            resourceContention.nonblocking.remove(holder)
        }
        noteRoom(at: resource)
    }

    /// Forgets the nonblocking holders, because no claim waits any more.
    mutating func resetNonblocking(at resource: Resource) {
        changeResourceContention(at: resource) { $0.nonblocking = [] }
        holderGroups[resource]?.clearNonblocking { _ in true }
    }

    private mutating func changeResourceContention(
        at resource: Resource, _ body: (inout ResourceContention) -> Void
    ) {
        guard let place = resourceContentions.index(forKey: resource) else {
            var resourceContention = ResourceContention()
            body(&resourceContention)
            if !resourceContention.isEmpty { resourceContentions[resource] = resourceContention }
            return
        }
        body(&resourceContentions.values[place])
        if resourceContentions.values[place].isEmpty { resourceContentions.remove(at: place) }
    }
}
