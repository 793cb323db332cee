// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Those who hold one thing, if they are very many: alike ones are a group, and one of a group is looked at for all (Y11).
///
/// A program may hold its own file a hundred thousand times. What an event takes must not grow with that.
struct Throng: Sendable {
    /// Whom a suspended holder lets pass.
    enum Passers: Hashable, Sendable { case none, readers, all }

    /// Claims of one kin, or without a process but with one purpose (X1, X5).
    struct Clan: Hashable, Sendable {
        let kin: Kin
        let purpose: Purpose?
    }

    /// All on which it depends whom a holder keeps out.
    struct Kind: Hashable, Sendable {
        let clan: Clan
        let isIdentified: Bool
        let isWrite: Bool
        let isWritingPart: Bool
        let nature: Request.Nature
        let conduct: UInt8
        /// Of those that may be at ease beside another handle of the same item (X6).
        let item: ItemID?
        let passers: Passers

        /// Y1, Y7.
        var isBounded: Bool { nature != .nameChange && nature != .episode }
        /// D1: whether its program may wait for something else, so that it hangs on that.
        var mayHang: Bool { isIdentified && (nature == .handle || nature == .aware) }
        /// Whether it can be contested.
        fileprivate var isContestable: Bool { isBounded && passers != .all }
    }

    struct Group: Sendable {
        let kind: Kind
        /// Those that have no contest, and those that have one.
        fileprivate(set) var fresh = ClaimQueue()
        fileprivate(set) var contested = ClaimQueue()
        /// Those on whom something may hang, by thread.
        fileprivate(set) var threads: [Int32: ClaimQueue] = [:]
        /// Whether none of those who wait is kept out by them.
        fileprivate(set) var isCalm = false
        /// Which of them may be contested next.
        fileprivate var head: ClaimID?

        fileprivate init(_ kind: Kind) { self.kind = kind }

        var count: Int { fresh.count + contested.count }
        var all: [ClaimID] { Array(fresh) + Array(contested) }
        /// The lowest numbers.
        func firstOnes(_ most: Int) -> [ClaimID] {
            Array((Array(fresh.prefix(most)) + Array(contested.prefix(most))).sorted().prefix(most))
        }
        /// The one with the lowest number.
        var first: ClaimID {
            switch (fresh.first, contested.first) {
            case (let one?, let other?): min(one, other)
            case (let one, let other): one ?? other ?? ClaimID(0)
            }
        }

        /// Which one depends on the seed.
        func some(_ seed: ClaimID) -> ClaimID {
            fresh.someStranger(of: 0, seed: seed) { _ in true }
                ?? contested
                .someStranger(of: 0, seed: seed) { _ in true } ?? first
        }
    }

    /// Groups in an order that depends on nothing but what happened.
    struct Groups: Sendable {
        fileprivate(set) var all: [Group] = []
        private var places: [Kind: Int] = [:]

        fileprivate mutating func change(_ kind: Kind, _ body: (inout Group) -> Void) {
            let place: Int
            if let known = places[kind] {
                place = known
            } else {
                place = all.count
                places[kind] = place
                all.append(Group(kind))
            }
            body(&all[place])
            guard all[place].count == 0 else { return }
            places[kind] = nil
            let last = all.removeLast()
            guard place < all.count else { return }
            all[place] = last
            places[last.kind] = place
        }

        fileprivate subscript(kind: Kind) -> Group? { places[kind].map { all[$0] } }

        /// The first that matches; where it is looked for first depends on the seed.
        func first(seed: ClaimID, where matches: (Group) -> Bool) -> Group? {
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
        let kind: Kind
        let thread: Int32
        let isContested: Bool
    }

    /// Those that keep out others, or hold them back (X4).
    private(set) var writers = Groups()
    private(set) var readers = Groups()
    /// Those that let all pass whose makers are known: nearly nothing looks at them again.
    private(set) var pastWriters = Groups()
    private var pastReaders = Groups()
    private var members: [ClaimID: Member] = [:]
    /// Of each group that is not known to be calm the lowest without a contest.
    private var heads = ClaimQueue()
    private var calm: Set<Kind> = []
    /// Those that are never contested, few of them: the kernel lets one after the other change names.
    private(set) var unbounded: Set<ClaimID> = []

    var count: Int { members.count }
    /// Whether it takes less to look at one of each kind than at each.
    var hasFewKindsOfWriters: Bool { writers.all.count + pastWriters.all.count <= 256 }
    var active: [Group] { writers.all + readers.all }
    var countOfActive: Int { writers.all.count + readers.all.count }
    func contains(_ claim: ClaimID) -> Bool { members[claim] != nil }

    mutating func insert(_ claim: ClaimID, _ kind: Kind, thread: Int32, isContested: Bool) {
        members[claim] = Member(kind: kind, thread: thread, isContested: isContested)
        if !kind.isBounded { unbounded.insert(claim) }
        change(kind) { group in
            if isContested {
                group.contested.insert(claim, kind.clan.kin)
            } else {
                group.fresh.insert(claim, kind.clan.kin)
            }
            if kind.mayHang { group.threads[thread, default: ClaimQueue()].insert(claim, kind.clan.kin) }
        }
    }

    mutating func remove(_ claim: ClaimID) {
        guard let member = members.removeValue(forKey: claim) else { return }
        if !member.kind.isBounded { unbounded.remove(claim) }
        change(member.kind) { group in
            if member.isContested { group.contested.remove(claim) } else { group.fresh.remove(claim) }
            guard member.kind.mayHang else { return }
            group.threads[member.thread]?.remove(claim)
            if group.threads[member.thread]?.isEmpty ?? false { group.threads[member.thread] = nil }
        }
    }

    /// The lowest that may be contested, and one that is like it.
    var next: ClaimID? { heads.first }

    /// Whether it is known to keep out none of those who wait.
    func isCalm(_ claim: ClaimID) -> Bool {
        if calm.isEmpty { return false }
        return members[claim].map { calm.contains($0.kind) && self[$0.kind]?.isCalm == true } ?? false
    }

    /// None of those who wait is kept out by claims like this one.
    mutating func calmDown(_ claim: ClaimID) {
        guard let kind = members[claim]?.kind else { return }
        calm.insert(kind)
        change(kind) { $0.isCalm = true }
    }

    /// Those groups which are said to keep out one who waits are calm no longer.
    mutating func rouse(where keepsOut: (Group) -> Bool) {
        let former = calm
        calm = []
        for kind in former {
            guard let group = self[kind], group.isCalm else { continue }
            if keepsOut(group) { change(kind) { $0.isCalm = false } } else { calm.insert(kind) }
        }
    }

    /// One that stands in the way of a claim, of groups that are not of its own kin; the body is told one of each.
    func obstacle(of claim: Claim, asWriter isWrite: Bool, _ isInTheWay: (Group, ClaimID) -> Bool) -> ClaimID?
    {
        let look = { (group: Group) in
            group.kind.clan.kin != claim.kin || claim.kin == 0
                ? isInTheWay(group, group.some(claim.id)) : false
        }
        var found = writers.first(seed: claim.id, where: look)
        if found == nil, isWrite {
            found = readers.first(seed: claim.id, where: look)
            // X4.
            if found == nil, !claim.isIdentified { found = pastWriters.first(seed: claim.id, where: look) }
        }
        return found?.some(claim.id)
    }

    private subscript(kind: Kind) -> Group? { self[keyPath: Self.place(of: kind)][kind] }

    private mutating func change(_ kind: Kind, _ body: (inout Group) -> Void) {
        var (former, wanted): (ClaimID?, ClaimID?)
        self[keyPath: Self.place(of: kind)].change(kind) { group in
            former = group.head
            body(&group)
            wanted = group.isCalm || !kind.isContestable ? nil : group.fresh.first
            group.head = wanted
        }
        if former == wanted { return }
        if let former { heads.remove(former) }
        if let wanted { heads.insert(wanted, kind.clan.kin) }
    }

    private static func place(of kind: Kind) -> WritableKeyPath<Self, Groups> {
        switch (kind.isWrite, kind.passers == .all) {
        case (true, false): \.writers
        case (false, false): \.readers
        case (true, true): kind.isIdentified ? \.pastWriters : \.writers
        case (false, true): \.pastReaders
        }
    }
}

/// Where very many hold one thing.
extension Arbiter {
    func kind(of holder: Claim, at stake: Stake) -> Throng.Kind {
        let mayBeAtEase = holder.nature == .handle && (!holder.conduct.isEmpty || holder.onlyReads)
        let purpose = holder.kin == 0 ? parties[holder.id]?.purpose : nil
        return Throng.Kind(
            clan: Throng.Clan(kin: holder.kin, purpose: purpose), isIdentified: holder.isIdentified,
            isWrite: stake.isWrite, isWritingPart: holder.isWritingPart(stake.resource.item),
            nature: holder.nature, conduct: holder.conduct.rawValue,
            item: mayBeAtEase ? holder.first.item : nil,
            passers: holder.suspension.map { $0.isForReaders ? .readers : .all } ?? .none)
    }

    /// Enters a holder, if it is one of very many there or makes them so.
    ///
    /// Where none waits, that is not looked at before there are far more: each open of a file that many have open would pay for it.
    mutating func joinThrong(_ holder: Claim, at stake: Stake, of holders: Int) {
        if throngs[stake.resource] != nil {
            insert(holder, at: stake)
            noteVacancy(at: stake.resource)
        } else if holders > 16 * crowd.holders || dockets[stake.resource]?.waiting.isEmpty == false {
            gatherThrong(at: stake.resource)
        }
    }

    mutating func gatherThrong(at resource: Resource) {
        guard let held = dockets[resource]?.held, held.count > crowd.holders, throngs[resource] == nil else {
            return
        }
        throngs[resource] = throng(at: resource)
        standoffs[resource]?.calm = []
        noteVacancy(at: resource)
    }

    private mutating func noteVacancy(at resource: Resource) {
        if !waits.isEmpty || !contests.isEmpty { vacancies.insert(resource) }
    }

    /// Those who hold a thing, as one.
    func throng(at resource: Resource) -> Throng {
        if let throng = throngs[resource] { return throng }
        var throng = Throng()
        guard let held = dockets[resource]?.held else { return throng }
        for (side, isWrite) in [(held.readers, false), (held.writers, true)] {
            for id in side {
                guard let claim = claims[id] else { continue }
                let kind = kind(of: claim, at: Stake(resource, isWrite: isWrite))
                throng.insert(
                    id, kind, thread: parties[id]?.thread ?? 0, isContested: contests[id] != nil)
            }
        }
        return throng
    }

    private mutating func insert(_ holder: Claim, at stake: Stake) {
        let (kind, thread) = (kind(of: holder, at: stake), parties[holder.id]?.thread ?? 0)
        let isContested = contests[holder.id] != nil
        throngs[stake.resource]?.insert(holder.id, kind, thread: thread, isContested: isContested)
    }

    /// Takes a holder away; far fewer are no throng any more.
    mutating func leaveThrong(_ holder: ClaimID, at resource: Resource, of holders: Int) {
        guard let entry = throngs.index(forKey: resource) else { return }
        throngs.values[entry].remove(holder)
        noteVacancy(at: resource)
        guard holders <= max(1, crowd.holders / 2) else { return }
        throngs.remove(at: entry)
        guard let held = dockets[resource]?.held else { return }
        shaken += held.readers.filter { contests[$0] == nil } + held.writers.filter { contests[$0] == nil }
    }

    /// A holder has changed: its group is looked for again.
    mutating func renewInThrongs(_ holder: ClaimID) {
        if throngs.isEmpty { return }
        guard let claim = claims[holder], claim.isHeld else { return }
        claim.forEachStake { stake in
            guard let entry = throngs.index(forKey: stake.resource), throngs.values[entry].contains(holder)
            else { return }
            throngs.values[entry].remove(holder)
            insert(claim, at: stake)
            noteVacancy(at: stake.resource)
        }
    }
}
