// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The lock queues of all resources, with records of long queues, locked subtrees and groups of holders.
///
/// Invariants (I4):
///
/// - Each claim is in the queue of every lock that it requires, and in no other queue. Each queue has separate lists
///   for held readers, held writers, waiting readers and waiting writers.
/// - No queue is empty.
/// - `subtrees` counts the claims that require the contents of a directory to write. Only while this number is above
///   zero, claims below the directory require the contents to read (S4).
/// - `holdCounts` counts the holders that are identified and not suspended.
/// - For each resource, `groups` has either all holders or none. It has all holders if they are very many (Y11).
/// - A resource enters `overlong` when more claims wait than the limit, and leaves it when half the limit wait (Q5).
struct LockTable: Sendable {
    private var queues: [Resource: LockQueue] = [:]
    private var subtrees: [ItemID: SubtreeLock] = [:]
    private var holdCounts = HoldCounts()
    private var groups: [Resource: HolderGroups] = [:]
    private var overlong: Set<Resource> = []

    var isEmpty: Bool { queues.isEmpty && subtrees.isEmpty }
    /// The number of lock queues and locked subtrees.
    var count: Int { queues.count + subtrees.count }

    /// The claims that require a resource; nil if no claim requires it.
    subscript(resource: Resource) -> LockQueue? {
        @inline(__always) get { queues[resource] }
    }
}

/// How claims enter and leave lock queues.
extension LockTable {
    /// Adds a waiting claim. Returns the number of claims that wait for the resource.
    mutating func wait(_ claim: Claim, for lock: RequiredLock) -> Int {
        queues[lock.resource, default: LockQueue()].wait(claim.id, claim.partyNumber, lock.isWrite)
    }

    /// Adds a holder. Returns the number of holders of the resource.
    mutating func hold(_ claim: Claim, _ lock: RequiredLock) -> Int {
        queues[lock.resource, default: LockQueue()].hold(claim.id, claim.partyNumber, lock.isWrite)
    }

    /// Removes a claim from a queue. If the claim was held, returns how many other claims hold the resource; if it
    /// waited, how many others wait.
    ///
    /// Nil if no claim requires the resource.
    mutating func leave(_ claim: Claim, _ lock: RequiredLock) -> Int? {
        guard let place = queues.index(forKey: lock.resource) else { return nil }
        let (left, isEmpty) = queues.values[place].leave(claim.id, lock.isWrite, isHeld: claim.isHeld)
        if isEmpty { queues.remove(at: place) }
        return left
    }

    /// Sets the party number of a claim in all its queues.
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

    /// Adds a holder if no other claim requires the resource. If another claim does, changes nothing and returns false.
    @inline(__always)
    mutating func holdUncontended(_ claim: ClaimID, _ resource: Resource, isWrite: Bool) -> Bool {
        queues[resource, default: LockQueue()].enterUncontended(claim, isWrite)
    }

    /// Removes the holder of a resource if no other claim requires the resource. If another claim does, changes nothing
    /// and returns false.
    @inline(__always)
    mutating func releaseUncontended(_ resource: Resource) -> Bool {
        // The lock queue is not copied, because the copy would cost more than the rest of this method.
        guard let place = queues.index(forKey: resource), queues.values[place].hasSingleHolder() else {
            return false
        }
        queues.remove(at: place)
        return true
    }
}

/// Q5: Queues with very many waiting claims.
extension LockTable {
    enum LengthChange { case becameOverlong, becameShort }

    func isOverlong(_ resource: Resource) -> Bool { !overlong.isEmpty && overlong.contains(resource) }

    /// Stores how many claims wait for a resource now. Returns whether the queue has become overlong or short.
    ///
    /// A queue becomes overlong above the limit, and short at half the limit. With a single limit for both, a queue
    /// could change often, and each change causes a review of all waiting claims.
    mutating func noteLength(of resource: Resource, _ count: Int, within limit: Int) -> LengthChange? {
        if count > limit { return overlong.insert(resource).inserted ? .becameOverlong : nil }
        if overlong.isEmpty || count > limit / 2 { return nil }
        return overlong.remove(resource) != nil ? .becameShort : nil
    }

    /// Called after a claim was removed from an overlong queue and added to the queue again. If more claims than half
    /// the limit wait, the queue stays overlong.
    mutating func restoreOverlong(_ resource: Resource, within limit: Int) {
        if queues[resource]?.waiting.count ?? 0 > limit / 2 { overlong.insert(resource) }
    }
}

/// The numbers of holders of each program and kind.
extension LockTable {
    private func kind(of claim: Claim, _ lock: RequiredLock) -> HoldCounts.HoldKind {
        HoldCounts.HoldKind(
            resource: lock.resource, partyNumber: claim.partyNumber, isWrite: lock.isWrite,
            accessPattern: claim.accessPattern.rawValue, isAware: claim.nature == .aware)
    }

    /// Counts a holder. Returns whether it is the first holder of its program and kind at any of its resources.
    mutating func countHold(_ claim: Claim) -> Bool {
        var isFirst = false
        claim.forEachRequiredLock { if countHold(claim, at: $0) { isFirst = true } }
        return isFirst
    }

    mutating func countHold(_ claim: Claim, at lock: RequiredLock) -> Bool {
        claim.isCountedHold && holdCounts.enter(kind(of: claim, lock))
    }

    /// Subtracts a holder from the counts. Returns whether it was the last holder of its program and kind at any of its
    /// resources.
    mutating func uncountHold(_ claim: Claim) -> Bool {
        var isLast = false
        claim.forEachRequiredLock { if uncountHold(claim, at: $0) { isLast = true } }
        return isLast
    }

    mutating func uncountHold(_ claim: Claim, at lock: RequiredLock) -> Bool {
        claim.isCountedHold && holdCounts.leave(kind(of: claim, lock))
    }

    /// Whether the claim's program has a holder for which all other claims wait, except name changes and exempt claims.
    ///
    /// Such a holder writes, and its handle neither appends nor locks (X6).
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

/// Y11: The holders of each resource that has very many holders, in groups.
extension LockTable {
    /// Whether the holders of any resource are in groups.
    var hasGroups: Bool { !groups.isEmpty }

    func isGrouped(_ resource: Resource) -> Bool { groups.index(forKey: resource) != nil }

    func groups(at resource: Resource) -> HolderGroups? { groups[resource] }

    /// The lowest holder of a resource that may begin a contention.
    func nextUncontended(at resource: Resource) -> ClaimID? {
        groups.index(forKey: resource).flatMap { groups.values[$0].next }
    }

    func isNonblocking(_ holder: ClaimID, at resource: Resource) -> Bool {
        groups.index(forKey: resource).map { groups.values[$0].isNonblocking(holder) } ?? false
    }

    mutating func setGroups(_ grouping: HolderGroups, at resource: Resource) { groups[resource] = grouping }

    /// Removes and returns the groups of a resource, so that a change does not copy them. The caller stores them again
    /// by ``setGroups(_:at:)``.
    mutating func takeGroups(at resource: Resource) -> HolderGroups? { groups.removeValue(forKey: resource) }

    mutating func insertInGroup(
        _ holder: ClaimID, _ kind: HolderGroups.HolderKind, at resource: Resource, thread: Int32,
        isContended: Bool
    ) {
        groups[resource]?.insert(holder, kind, thread: thread, isContended: isContended)
    }

    /// Removes a holder from its group. Returns false if the holder was in no group.
    mutating func removeFromGroup(_ holder: ClaimID, at resource: Resource) -> Bool {
        guard let entry = groups.index(forKey: resource), groups.values[entry].contains(holder) else {
            return false
        }
        groups.values[entry].remove(holder)
        return true
    }

    /// Removes the groups of a resource, because it has only few holders now.
    mutating func dissolveGroups(at resource: Resource) { groups[resource] = nil }

    /// Notes that all holders of the kind of this holder block no waiting claim at present.
    mutating func markNonblocking(_ holder: ClaimID, at resource: Resource) {
        groups[resource]?.markNonblocking(holder)
    }

    /// Forgets which holders block no waiting claim, so that each holder is checked again.
    mutating func clearNonblocking(at resource: Resource) { groups[resource]?.clearNonblocking { _ in true } }
}

/// The claims that require the contents of a directory to write.
struct SubtreeLock: Sendable {
    var claims = 0
    /// Whether all claims below the directory have a read lock on the contents. If not, only aware claims have this
    /// lock.
    var isComplete = false
}

/// S4: Directories with claims that require the contents to write.
extension LockTable {
    var hasSubtreeLocks: Bool { !subtrees.isEmpty }

    func subtreeLock(of directory: ItemID) -> SubtreeLock? { subtrees[directory] }

    /// Counts a claim that requires the contents of a directory to write.
    ///
    /// Returns whether it is the first such claim, and whether all claims below must now get a read lock.
    mutating func lockSubtree(_ directory: ItemID, completely: Bool) -> (isFirst: Bool, mustEnterAll: Bool) {
        var lock = subtrees[directory] ?? SubtreeLock()
        let result = (isFirst: lock.claims == 0, mustEnterAll: completely && !lock.isComplete)
        lock.claims += 1
        if completely { lock.isComplete = true }
        subtrees[directory] = lock
        return result
    }

    /// Subtracts a claim that required the contents of a directory to write. If it was the last such claim, removes and
    /// returns the lock queue of the contents.
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

/// Counts of entries, which debug builds compare when they check the invariants.
extension LockTable {
    /// The number of entries in all queues. A claim has an entry in each of its queues.
    var countOfPlaces: Int { queues.values.reduce(0) { $0 + $1.held.count + $1.waiting.count } }
    var hasEmptyQueue: Bool { queues.values.contains(where: \.isEmpty) }
    /// For each directory, the number of claims that require its contents to write.
    var subtreeClaims: [ItemID: Int] { subtrees.mapValues(\.claims) }
}
