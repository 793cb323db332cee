// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Those who hold something for which others wait.
struct ResourceContention: Sendable {
    /// Those with a contest.
    var contended = ClaimQueue()
    /// Those that have none, though they may come to have one: they keep out nobody of those who wait now.
    var nonblocking: Set<ClaimID> = []
    /// If so many have one that others cannot: since when the first of them counts (Y11).
    var fullSince: Instant?

    var isEmpty: Bool { contended.isEmpty && nonblocking.isEmpty && fullSince == nil }
}

/// How contests begin and end.
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

    /// Notes a holder that keeps out nobody of those who wait.
    mutating func markNonblocking(_ holder: Claim) {
        holder.forEachRequiredLock { lock in
            guard let lockQueue = lockQueues[lock.resource], !lockQueue.waiting.isEmpty,
                holderGroups[lock.resource] == nil
            else { return }
            changeResourceContention(at: lock.resource) { $0.nonblocking.insert(holder.id) }
        }
    }

    /// A contested holder holds something else as well.
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

    /// Y11: one has a contest no more, so another one may.
    private mutating func noteRoom(at resource: Resource) {
        if holderGroups[resource] != nil || resourceContentions[resource]?.fullSince != nil {
            contentionSlots.insert(resource)
        }
    }

    /// Y11: whether there is room for one more contest.
    func hasRoom(at resource: Resource) -> Bool {
        (resourceContentions[resource]?.contended.count ?? 0) < limits.holders
    }

    /// Y11: of all that came to be contested without a break none has more time than the first.
    mutating func endFullness(at resource: Resource) {
        guard hasRoom(at: resource), resourceContentions[resource]?.fullSince != nil else { return }
        changeResourceContention(at: resource) { $0.fullSince = nil }
    }

    /// It is no longer there, or lets everybody pass.
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

    /// No claim waits there any more.
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
