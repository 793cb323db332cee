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

    /// Notes a holder that blocks no waiting claim.
    mutating func markNonblocking(_ holder: Claim) {
        holder.forEachRequiredLock { lock in
            guard let lockQueue = locks[lock.resource], !lockQueue.waiting.isEmpty,
                !locks.isGrouped(lock.resource)
            else { return }
            contentions.markNonblocking(holder.id, at: lock.resource)
        }
    }

    /// Y11: Notes that a slot is free, because a contention ended.
    private mutating func noteRoom(at resource: Resource) {
        if locks.isGrouped(resource) || contentions.fullSince(at: resource) != nil {
            agenda.addContentionSlot(at: resource)
        }
    }

    /// Y11: whether there is a slot for one more contention.
    func hasRoom(at resource: Resource) -> Bool {
        contentions.hasRoom(at: resource, of: limits.holders)
    }

    /// Y11: Ends the common beginning of all contentions once there are free slots again.
    mutating func endFullness(at resource: Resource) {
        guard hasRoom(at: resource), contentions.fullSince(at: resource) != nil else { return }
        contentions.endFullness(at: resource)
    }

    /// Removes a holder that has ended or is fully suspended.
    mutating func leaveResourceContentions(_ holder: Claim) {
        if contentions.hasNoResources { return }
        holder.forEachRequiredLock { leaveResourceContention(holder.id, at: $0.resource) }
    }

    mutating func leaveResourceContention(_ holder: ClaimID, at resource: Resource) {
        if contentions.hasNoResources { return }
        contentions.leave(holder, at: resource)
        noteRoom(at: resource)
    }

    /// Forgets the nonblocking holders, because no claim waits any more.
    mutating func resetNonblocking(at resource: Resource) {
        contentions.resetNonblocking(at: resource)
        locks.clearNonblocking(at: resource)
    }
}
