// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Y11: The holders of a resource that has very many holders, in groups of equal kind. One claim represents its group.
///
/// A program can hold one file by a hundred thousand handles. The work of an event must not grow with the number of
/// handles.
struct HolderGroups: Sendable {
    /// The claims that no longer wait for a holder, because the holder is suspended: no claims, only readers, or all
    /// claims.
    enum SuspensionScope: Hashable, Sendable { case none, readers, all }

    /// X1, X5: The key of all claims of one party, or of all claims with one purpose and an unknown process.
    struct PartyKey: Hashable, Sendable {
        let partyNumber: PartyNumber
        let purpose: Purpose?
    }

    /// All properties of a holder that decide which claims wait for the holder.
    struct HolderKind: Hashable, Sendable {
        let partyKey: PartyKey
        let isIdentified: Bool
        let isWrite: Bool
        let isWritingPart: Bool
        let nature: ClaimRequest.Nature
        let accessPattern: UInt8
        let isClosed: Bool
        /// X6: The item of a handle that is allowed to be held together with another handle of the item. Nil for other
        /// holders.
        let item: ItemID?
        let suspensionScope: SuspensionScope

        /// Y1, Y7: Whether a holder of this kind is suspended at a time limit. Name changes and pending saves have no
        /// such limit.
        var isBounded: Bool { nature != .nameChange && nature != .pendingSave }
        /// D1: Whether a holder of this kind depends on the claims for which its program waits.
        var mayDepend: Bool { isIdentified && !isClosed && (nature == .handle || nature == .aware) }
        /// Whether a holder of this kind can have a contention.
        fileprivate var canBeContended: Bool { isBounded && suspensionScope != .all }
    }

    struct HolderGroup: Sendable {
        let kind: HolderKind
        /// The holders without a contention. `contended` has the holders with a contention.
        fileprivate(set) var uncontended = ClaimQueue()
        fileprivate(set) var contended = ClaimQueue()
        /// The holders that may depend on waiting claims, by their threads.
        fileprivate(set) var threads: [Int32: ClaimQueue] = [:]
        /// Whether the holders of the group block no waiting claim at present.
        fileprivate(set) var isNonblocking = false
        /// The holder of the group that is the next to begin a contention.
        fileprivate var head: ClaimID?

        fileprivate init(_ kind: HolderKind) { self.kind = kind }

        var count: Int { uncontended.count + contended.count }
        var all: [ClaimID] { Array(uncontended) + Array(contended) }
        /// The claims of the group with the lowest numbers, at most `most` of them.
        func firstOnes(_ most: Int) -> [ClaimID] {
            Array((Array(uncontended.prefix(most)) + Array(contended.prefix(most))).sorted().prefix(most))
        }
        /// The claim of the group with the lowest number.
        var first: ClaimID {
            switch (uncontended.first, contended.first) {
            case (let one?, let other?): min(one, other)
            case (let one, let other): one ?? other ?? ClaimID(0)
            }
        }

        /// Returns a claim of the group. Different seeds give different claims.
        func some(_ seed: ClaimID) -> ClaimID {
            uncontended.someStranger(of: 0, seed: seed) { _ in true }
                ?? contended
                .someStranger(of: 0, seed: seed) { _ in true } ?? first
        }
    }

    /// A list of groups. The order of the list depends only on the events of the arbiter.
    struct HolderGroupList: Sendable {
        fileprivate(set) var all: [HolderGroup] = []
        private var places: [HolderKind: Int] = [:]

        fileprivate mutating func change(_ kind: HolderKind, _ body: (inout HolderGroup) -> Void) {
            let place: Int
            if let known = places[kind] {
                place = known
            } else {
                place = all.count
                places[kind] = place
                all.append(HolderGroup(kind))
            }
            body(&all[place])
            guard all[place].count == 0 else { return }
            places[kind] = nil
            let last = all.removeLast()
            guard place < all.count else { return }
            all[place] = last
            places[last.kind] = place
        }

        fileprivate subscript(kind: HolderKind) -> HolderGroup? { places[kind].map { all[$0] } }

        /// A group of the list for which the closure returns true. The seed decides where the search begins.
        func first(seed: ClaimID, where matches: (HolderGroup) -> Bool) -> HolderGroup? {
            if all.isEmpty { return nil }
            let start = Int((seed.rawValue &* 0x9E37_79B9_7F4A_7C15) >> 33) % all.count
            for place in all.indices {
                let group = all[(start + place) % all.count]
                if matches(group) { return group }
            }
            return nil
        }
    }

    private struct Member: Sendable {
        let kind: HolderKind
        let thread: Int32
        let isContended: Bool
    }

    /// Writers for which other claims wait, some only until both claims are identified (X4).
    private(set) var writers = HolderGroupList()
    private(set) var readers = HolderGroupList()
    /// Identified writers that are suspended for all claims. Few functions have to visit these writers.
    private(set) var suspendedWriters = HolderGroupList()
    private var pastReaders = HolderGroupList()
    private var members: [ClaimID: Member] = [:]
    /// The lowest holder without a contention of each group that may block a waiting claim.
    private var firstUncontended = ClaimQueue()
    private var nonblocking: Set<HolderKind> = []
    /// The holders that never have a contention: name changes and pending saves. The kernel serializes changes of
    /// names, so these holders are few.
    private(set) var unbounded: Set<ClaimID> = []

    var count: Int { members.count }
    /// Whether there are so few groups of writers that one claim of each group can be visited.
    var hasFewKindsOfWriters: Bool { writers.all.count + suspendedWriters.all.count <= 256 }
    var active: [HolderGroup] { writers.all + readers.all }
    var countOfActive: Int { writers.all.count + readers.all.count }
    func contains(_ claim: ClaimID) -> Bool { members[claim] != nil }

    mutating func insert(_ claim: ClaimID, _ kind: HolderKind, thread: Int32, isContended: Bool) {
        members[claim] = Member(kind: kind, thread: thread, isContended: isContended)
        if !kind.isBounded { unbounded.insert(claim) }
        change(kind) { group in
            if isContended {
                group.contended.insert(claim, kind.partyKey.partyNumber)
            } else {
                group.uncontended.insert(claim, kind.partyKey.partyNumber)
            }
            if kind.mayDepend {
                group.threads[thread, default: ClaimQueue()].insert(claim, kind.partyKey.partyNumber)
            }
        }
    }

    mutating func remove(_ claim: ClaimID) {
        guard let member = members.removeValue(forKey: claim) else { return }
        if !member.kind.isBounded { unbounded.remove(claim) }
        change(member.kind) { group in
            if member.isContended { group.contended.remove(claim) } else { group.uncontended.remove(claim) }
            guard member.kind.mayDepend else { return }
            group.threads[member.thread]?.remove(claim)
            if group.threads[member.thread]?.isEmpty ?? false { group.threads[member.thread] = nil }
        }
    }

    /// The lowest holder that may begin a contention.
    var next: ClaimID? { firstUncontended.first }

    /// Whether it is known that a holder blocks no waiting claim at present.
    func isNonblocking(_ claim: ClaimID) -> Bool {
        if nonblocking.isEmpty { return false }
        return members[claim].map { nonblocking.contains($0.kind) && self[$0.kind]?.isNonblocking == true }
            ?? false
    }

    /// Notes that this holder, and all holders of the same kind, block no waiting claim at present.
    mutating func markNonblocking(_ claim: ClaimID) {
        guard let kind = members[claim]?.kind else { return }
        nonblocking.insert(kind)
        change(kind) { $0.isNonblocking = true }
    }

    /// Removes the note that a group blocks no waiting claim, if the closure returns true for the group.
    mutating func clearNonblocking(where keepsOut: (HolderGroup) -> Bool) {
        let former = nonblocking
        nonblocking = []
        for kind in former {
            guard let group = self[kind], group.isNonblocking else { continue }
            if keepsOut(group) { change(kind) { $0.isNonblocking = false } } else { nonblocking.insert(kind) }
        }
    }

    /// Any claim that blocks the given claim, from the groups of other parties. The closure is called with one claim of
    /// each group.
    func blocker(of claim: Claim, asWriter isWrite: Bool, _ isBlocker: (HolderGroup, ClaimID) -> Bool)
        -> ClaimID?
    {
        let look = { (group: HolderGroup) in
            group.kind.partyKey.partyNumber != claim.partyNumber || claim.partyNumber == 0
                ? isBlocker(group, group.some(claim.id)) : false
        }
        var found = writers.first(seed: claim.id, where: look)
        if found == nil, isWrite {
            found = readers.first(seed: claim.id, where: look)
            // X4: A writer that is not identified also waits for suspended writers.
            if found == nil, !claim.isIdentified {
                found = suspendedWriters.first(seed: claim.id, where: look)
            }
        }
        return found?.some(claim.id)
    }

    private subscript(kind: HolderKind) -> HolderGroup? { self[keyPath: Self.place(of: kind)][kind] }

    private mutating func change(_ kind: HolderKind, _ body: (inout HolderGroup) -> Void) {
        var (former, wanted): (ClaimID?, ClaimID?)
        self[keyPath: Self.place(of: kind)].change(kind) { group in
            former = group.head
            body(&group)
            wanted = group.isNonblocking || !kind.canBeContended ? nil : group.uncontended.first
            group.head = wanted
        }
        if former == wanted { return }
        if let former { firstUncontended.remove(former) }
        if let wanted { firstUncontended.insert(wanted, kind.partyKey.partyNumber) }
    }

    private static func place(of kind: HolderKind) -> WritableKeyPath<Self, HolderGroupList> {
        switch (kind.isWrite, kind.suspensionScope == .all) {
        case (true, false): \.writers
        case (false, false): \.readers
        case (true, true): kind.isIdentified ? \.suspendedWriters : \.writers
        case (false, true): \.pastReaders
        }
    }
}

/// How the groups of a resource with very many holders are created and changed.
extension Arbiter {
    func kind(of holder: Claim, at lock: RequiredLock) -> HolderGroups.HolderKind {
        let mayBeAtEase = holder.nature == .handle && (!holder.accessPattern.isEmpty || holder.onlyReads)
        let purpose = holder.partyNumber == 0 ? families.party(of: holder.id)?.purpose : nil
        return HolderGroups.HolderKind(
            partyKey: HolderGroups.PartyKey(partyNumber: holder.partyNumber, purpose: purpose),
            isIdentified: holder.isIdentified,
            isWrite: lock.isWrite, isWritingPart: holder.isWritingPart(lock.resource.item),
            nature: holder.nature, accessPattern: holder.accessPattern.rawValue, isClosed: holder.isClosed,
            item: mayBeAtEase ? holder.first.item : nil,
            suspensionScope: holder.suspension.map { $0.isForReaders ? .readers : .all } ?? .none)
    }

    /// Adds a holder to the groups of a resource. Creates the groups if there are very many holders.
    ///
    /// Groups make each open slower. So while no claim waits for the resource, groups are created only above 16 times
    /// the usual limit.
    mutating func addToGroups(_ holder: Claim, at lock: RequiredLock, of holders: Int) {
        if locks.isGrouped(lock.resource) {
            insert(holder, at: lock)
            noteContentionSlot(at: lock.resource)
        } else if holders > 16 * limits.holders || locks[lock.resource]?.waiting.isEmpty == false {
            groupHolders(at: lock.resource)
        }
    }

    mutating func groupHolders(at resource: Resource) {
        guard let held = locks[resource]?.held, held.count > limits.holders,
            !locks.isGrouped(resource)
        else {
            return
        }
        locks.setGroups(grouping(at: resource), at: resource)
        contentions.handOverNonblocking(at: resource)
        noteContentionSlot(at: resource)
    }

    private mutating func noteContentionSlot(at resource: Resource) {
        if !waits.isEmpty || !contentions.isEmpty { agenda.addContentionSlot(at: resource) }
    }

    /// The groups of a resource's holders. If no groups are stored for the resource, makes new groups without storing
    /// them.
    func grouping(at resource: Resource) -> HolderGroups {
        if let grouping = locks.groups(at: resource) { return grouping }
        var grouping = HolderGroups()
        guard let held = locks[resource]?.held else { return grouping }
        for (side, isWrite) in [(held.readers, false), (held.writers, true)] {
            for id in side {
                guard let claim = claims[id] else { continue }
                let kind = kind(of: claim, at: RequiredLock(resource, isWrite: isWrite))
                grouping.insert(
                    id, kind, thread: families.party(of: id)?.thread ?? 0, isContended: contentions[id] != nil
                )
            }
        }
        return grouping
    }

    private mutating func insert(_ holder: Claim, at lock: RequiredLock) {
        let (kind, thread) = (kind(of: holder, at: lock), families.party(of: holder.id)?.thread ?? 0)
        let isContended = contentions[holder.id] != nil
        locks.insertInGroup(
            holder.id, kind, at: lock.resource, thread: thread, isContended: isContended)
    }

    /// Removes a holder from its group. Removes all groups of the resource if at most half the limit of holders is
    /// left.
    mutating func removeFromGroups(_ holder: ClaimID, at resource: Resource, of holders: Int) {
        guard locks.isGrouped(resource) else { return }
        _ = locks.removeFromGroup(holder, at: resource)
        noteContentionSlot(at: resource)
        guard holders <= max(1, limits.holders / 2) else { return }
        locks.dissolveGroups(at: resource)
        guard let held = locks[resource]?.held else { return }
        agenda.addHolders(
            held.readers.filter { contentions[$0] == nil } + held.writers.filter { contentions[$0] == nil })
    }

    /// Moves a holder to another group, because its properties have changed.
    mutating func regroup(_ holder: ClaimID) {
        if !locks.hasGroups { return }
        guard let claim = claims[holder], claim.isHeld else { return }
        claim.forEachRequiredLock { lock in
            guard locks.removeFromGroup(holder, at: lock.resource) else { return }
            insert(claim, at: lock)
            noteContentionSlot(at: lock.resource)
        }
    }
}
