// SPDX-License-Identifier: Apache-2.0
import Coordination

/// How contentions begin and end.
extension Arbiter {
    mutating func setContention(of holder: Claim, _ contention: Contention?) {
        guard contentions.set(contention, of: holder.id) else { return }
        holder.forEachRequiredLock { lock in
            if contention == nil {
                contentions.endContention(of: holder.id, at: lock.resource)
                noteRoom(at: lock.resource)
            } else {
                contentions.join(holder, at: lock.resource, of: limits.holders)
            }
        }
        regroup(holder.id)
    }

    /// Notes that a holder blocks no waiting claim at present. The note is stored at each resource of the holder.
    mutating func markNonblocking(_ holder: Claim) {
        holder.forEachRequiredLock { lock in
            guard let lockQueue = locks[lock.resource], !lockQueue.waiting.isEmpty,
                !locks.isGrouped(lock.resource)
            else { return }
            contentions.markNonblocking(holder.id, at: lock.resource)
        }
    }

    /// Y11: Notes that one more holder of a resource is allowed to begin a contention, because a contention has ended
    /// there.
    private mutating func noteRoom(at resource: Resource) {
        if locks.isGrouped(resource) || contentions.fullSince(at: resource) != nil {
            agenda.addContentionSlot(at: resource)
        }
    }

    /// Y11: Whether the number of contentions at a resource is below its limit.
    func hasRoom(at resource: Resource) -> Bool {
        contentions.hasRoom(at: resource, of: limits.holders)
    }

    /// Y11: If a resource has fewer contentions than its limit, new contentions there no longer get the start of the
    /// resource's first contention.
    mutating func endFullness(at resource: Resource) {
        guard hasRoom(at: resource), contentions.fullSince(at: resource) != nil else { return }
        contentions.endFullness(at: resource)
    }

    /// Removes a holder that has ended, or is suspended for all claims, from the contentions of its resources.
    mutating func leaveResourceContentions(_ holder: Claim) {
        if contentions.hasNoResources { return }
        holder.forEachRequiredLock { leaveResourceContention(holder.id, at: $0.resource) }
    }

    mutating func leaveResourceContention(_ holder: ClaimID, at resource: Resource) {
        if contentions.hasNoResources { return }
        contentions.leave(holder, at: resource)
        noteRoom(at: resource)
    }

    /// Forgets which holders block no waiting claim, because no claim waits for the resource any more.
    mutating func resetNonblocking(at resource: Resource) {
        contentions.resetNonblocking(at: resource)
        locks.clearNonblocking(at: resource)
    }
}
