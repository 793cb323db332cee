// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The lock queues of all resources, with what is known of long ones and of subtrees.
///
/// Invariants (I4):
///
/// - Each claim is in the queue of every lock that it requires, and in no other queue. It is among the held or the waiting
///   claims, and among the readers or the writers, as its state and its lock say.
/// - No queue is empty.
/// - `subtrees` counts the claims that require the contents of a directory to write. Only while it does, claims below
///   require these contents to read (S4).
/// - `holdCounts` counts the holders that keep others out on account of their program.
/// - `groups` has all holders of a resource with very many of them, or none (Y11).
/// - `overlong` has the resources for which more than the limit wait; a queue leaves it at half the limit (Q5).
struct LockTable: Sendable {
    private var queues: [Resource: LockQueue] = [:]
    private var subtrees: [ItemID: SubtreeLock] = [:]
    private var holdCounts = HoldCounts()
    private var groups: [Resource: HolderGroups] = [:]
    private var overlong: Set<Resource> = []

    var isEmpty: Bool { queues.isEmpty && subtrees.isEmpty }
    /// The number of locked resources and subtrees.
    var count: Int { queues.count + subtrees.count }

    /// The claims that require a resource; nil if there are none.
    subscript(resource: Resource) -> LockQueue? {
        @inline(__always) get { queues[resource] }
    }
}

/// How claims enter and leave lock queues.
extension LockTable {
    /// Adds a waiting claim, and returns the number of waiting claims.
    mutating func wait(_ claim: Claim, for lock: RequiredLock) -> Int {
        queues[lock.resource, default: LockQueue()].wait(claim.id, claim.partyNumber, lock.isWrite)
    }

    /// Adds a holder, and returns the number of holders.
    mutating func hold(_ claim: Claim, _ lock: RequiredLock) -> Int {
        queues[lock.resource, default: LockQueue()].hold(claim.id, claim.partyNumber, lock.isWrite)
    }

    /// Removes a claim; returns how many others hold the resource, or wait for it, as this claim did.
    ///
    /// Nil if no claim requires the resource.
    mutating func leave(_ claim: Claim, _ lock: RequiredLock) -> Int? {
        guard let place = queues.index(forKey: lock.resource) else { return nil }
        let (left, isEmpty) = queues.values[place].leave(claim.id, lock.isWrite, isHeld: claim.isHeld)
        if isEmpty { queues.remove(at: place) }
        return left
    }

    /// Enters the party number of a claim in its queues.
    mutating func name(_ claim: Claim) {
        claim.forEachRequiredLock { lock in
            guard let place = queues.index(forKey: lock.resource) else { return }
            if claim.isHeld {
                queues.values[place].held.name(claim.id, claim.partyNumber, lock.isWrite)
            } else {
                queues.values[place].waiting.name(claim.id, claim.partyNumber, lock.isWrite)
            }
        }
    }

    /// Adds a holder if no other claim requires the resource; returns false if one does.
    @inline(__always)
    mutating func holdUncontended(_ claim: ClaimID, _ resource: Resource, isWrite: Bool) -> Bool {
        queues[resource, default: LockQueue()].enterUncontended(claim, isWrite)
    }

    /// Removes the only claim that requires a resource; returns false if there is another, or it waits.
    @inline(__always)
    mutating func releaseUncontended(_ resource: Resource) -> Bool {
        // In place, because a copy of a lock queue costs more than all the rest.
        guard let place = queues.index(forKey: resource), queues.values[place].hasSingleHolder() else {
            return false
        }
        queues.remove(at: place)
        return true
    }
}

/// Overlong queues (Q5).
extension LockTable {
    enum LengthChange { case becameOverlong, becameShort }

    func isOverlong(_ resource: Resource) -> Bool { !overlong.isEmpty && overlong.contains(resource) }

    /// Notes how many claims wait for a resource now.
    ///
    /// A queue becomes overlong, and ceases to be so, at different lengths, because each change reviews all waiters.
    mutating func noteLength(of resource: Resource, _ count: Int, within limit: Int) -> LengthChange? {
        if count > limit { return overlong.insert(resource).inserted ? .becameOverlong : nil }
        if overlong.isEmpty || count > limit / 2 { return nil }
        return overlong.remove(resource) != nil ? .becameShort : nil
    }

    /// Notes again that a queue is overlong, from which a claim was away for a moment.
    mutating func restoreOverlong(_ resource: Resource, within limit: Int) {
        if queues[resource]?.waiting.count ?? 0 > limit / 2 { overlong.insert(resource) }
    }
}

/// Holders, counted by their program and kind.
extension LockTable {
    private func kind(of claim: Claim, _ lock: RequiredLock) -> HoldCounts.HoldKind {
        HoldCounts.HoldKind(
            resource: lock.resource, partyNumber: claim.partyNumber, isWrite: lock.isWrite,
            accessPattern: claim.accessPattern.rawValue, isAware: claim.nature == .aware)
    }

    /// Counts a holder; returns whether it is the first of its kind on any resource.
    mutating func countHold(_ claim: Claim) -> Bool {
        var isFirst = false
        claim.forEachRequiredLock { if countHold(claim, at: $0) { isFirst = true } }
        return isFirst
    }

    mutating func countHold(_ claim: Claim, at lock: RequiredLock) -> Bool {
        claim.isCountedHold && holdCounts.enter(kind(of: claim, lock))
    }

    /// Uncounts a holder; returns whether it was the last of its kind on any resource.
    mutating func uncountHold(_ claim: Claim) -> Bool {
        var isLast = false
        claim.forEachRequiredLock { if uncountHold(claim, at: $0) { isLast = true } }
        return isLast
    }

    mutating func uncountHold(_ claim: Claim, at lock: RequiredLock) -> Bool {
        claim.isCountedHold && holdCounts.leave(kind(of: claim, lock))
    }

    /// Whether a claim of its own program keeps out all waiters that are not exempt, except changes of names.
    ///
    /// That claim writes, and its handle neither appends nor locks (X6).
    func programHoldsExclusively(_ claim: Claim, of resource: Resource) -> Bool {
        guard claim.partyNumber != 0 else { return false }
        return [false, true].contains { isAware in
            holdCounts.contains(
                HoldCounts.HoldKind(
                    resource: resource, partyNumber: claim.partyNumber, isWrite: true, accessPattern: 0,
                    isAware: isAware))
        }
    }
}

/// The holders of resources with very many of them, in groups (Y11).
extension LockTable {
    /// Whether any resource has its holders in groups.
    var hasGroups: Bool { !groups.isEmpty }

    func isGrouped(_ resource: Resource) -> Bool { groups.index(forKey: resource) != nil }

    func groups(at resource: Resource) -> HolderGroups? { groups[resource] }

    /// The lowest holder of a resource that may become contended next.
    func nextUncontended(at resource: Resource) -> ClaimID? {
        groups.index(forKey: resource).flatMap { groups.values[$0].next }
    }

    func isNonblocking(_ holder: ClaimID, at resource: Resource) -> Bool {
        groups.index(forKey: resource).map { groups.values[$0].isNonblocking(holder) } ?? false
    }

    mutating func setGroups(_ grouping: HolderGroups, at resource: Resource) { groups[resource] = grouping }

    /// Takes the groups out, to change them in place; ``setGroups(_:at:)`` brings them back.
    mutating func takeGroups(at resource: Resource) -> HolderGroups? { groups.removeValue(forKey: resource) }

    mutating func insertInGroup(
        _ holder: ClaimID, _ kind: HolderGroups.HolderKind, at resource: Resource, thread: Int32,
        isContended: Bool
    ) {
        groups[resource]?.insert(holder, kind, thread: thread, isContended: isContended)
    }

    /// Removes a holder from its group; returns whether it was in one.
    mutating func removeFromGroup(_ holder: ClaimID, at resource: Resource) -> Bool {
        guard let entry = groups.index(forKey: resource), groups.values[entry].contains(holder) else {
            return false
        }
        groups.values[entry].remove(holder)
        return true
    }

    /// Removes the groups of a resource; its holders are few.
    mutating func dissolveGroups(at resource: Resource) { groups[resource] = nil }

    /// Notes that the holders of the same kind as this one keep out no waiting claim.
    mutating func markNonblocking(_ holder: ClaimID, at resource: Resource) {
        groups[resource]?.markNonblocking(holder)
    }

    /// Forgets which holders keep out no waiting claim.
    mutating func clearNonblocking(at resource: Resource) { groups[resource]?.clearNonblocking { _ in true } }
}

/// The number of claims that require the contents of a directory to write.
struct SubtreeLock: Sendable {
    var claims = 0
    /// Whether all claims below have their required lock; otherwise only aware claims have it.
    var isComplete = false
}

/// Locked subtrees (S4).
extension LockTable {
    var hasSubtreeLocks: Bool { !subtrees.isEmpty }

    func subtreeLock(of directory: ItemID) -> SubtreeLock? { subtrees[directory] }

    /// Counts a claim that requires the contents of a directory to write.
    ///
    /// Returns whether it is the first of these claims, and whether all claims below must meet it from now on.
    mutating func lockSubtree(_ directory: ItemID, completely: Bool) -> (isFirst: Bool, mustEnterAll: Bool) {
        var lock = subtrees[directory] ?? SubtreeLock()
        let result = (isFirst: lock.claims == 0, mustEnterAll: completely && !lock.isComplete)
        lock.claims += 1
        if completely { lock.isComplete = true }
        subtrees[directory] = lock
        return result
    }

    /// Uncounts such a claim; removes the queue of the contents after the last one, and returns it.
    mutating func unlockSubtree(_ directory: ItemID) -> LockQueue? {
        guard var lock = subtrees[directory] else { return nil }
        lock.claims -= 1
        subtrees[directory] = lock.claims > 0 ? lock : nil
        let contents = Resource.contents(of: directory)
        guard lock.claims == 0, let queue = queues.removeValue(forKey: contents) else { return nil }
        groups[contents] = nil
        overlong.remove(contents)
        return queue
    }
}

/// What the invariants are checked with.
extension LockTable {
    /// The number of places in all queues.
    var countOfPlaces: Int { queues.values.reduce(0) { $0 + $1.held.count + $1.waiting.count } }
    var hasEmptyQueue: Bool { queues.values.contains(where: \.isEmpty) }
    /// The number of claims that lock each subtree.
    var subtreeClaims: [ItemID: Int] { subtrees.mapValues(\.claims) }
}
