// SPDX-License-Identifier: Apache-2.0
import Coordination

/// What one search for cycles looks at, and how much it may.
///
/// Of very many that wait for one thing, threads of one program are alike: each waits for those that hold it, and for those
/// before it. One of them stands for all on whom nothing hangs, and that is the first, because a cycle is told by its lowest
/// claim (D2). Of what one program holds of a thing, handles of one thread that are alike are one, too.
final class CycleGround {
    /// What claims of one kin hold of a thing, so that they may hang on something.
    struct Holding {
        let clan: Throng.Clan
        let party: Party
        var groups: [Throng.Group]
    }

    /// What programs hold of one thing.
    struct Holdings {
        var all: [Holding] = []
        fileprivate var places: [Throng.Clan: Int] = [:]

        func place(of claim: Claim) -> Int? {
            claim.kin == 0 ? nil : places[Throng.Clan(kin: claim.kin, purpose: nil)]
        }
    }

    let arbiter: Arbiter
    private let most: Int
    private var limit: Int
    private(set) var steps = 0
    private var waiters: [Resource: (writers: [ClaimID], readers: [ClaimID])] = [:]
    private var holdings: [Resource: Holdings] = [:]
    private var parties: [Throng.Clan: Party] = [:]
    private var hungOnByAll: [Throng.Clan: [ClaimID]] = [:]
    /// Holders within which others wait, by what they hold; nil until it is asked for.
    private var outer: [Resource: [ClaimID]]?

    init(_ arbiter: Arbiter, most: Int) {
        self.arbiter = arbiter
        self.most = most
        limit = most
    }

    /// Whether all that may be looked at was.
    var isExhausted: Bool { steps > most }
    /// Whether what may be looked at for the present was.
    var isSpent: Bool { steps > limit }

    /// From now on only so many may be looked at, until this is called again.
    func allow(_ count: Int) { limit = count < most - steps ? steps + count : most }

    /// How many may still be looked at.
    var left: Int { most - steps }

    /// Notes so many steps that were taken. Whether more may be.
    func take(_ count: Int) -> Bool {
        steps += count
        return !isSpent
    }

    /// Whether so many steps may be taken; only then they count.
    func mayTake(_ count: Int) -> Bool {
        // A claim that takes too much must not use up the steps of the others.
        if count > limit - steps { steps = max(steps, limit + 1) } else { steps += count }
        return !isSpent
    }

    /// Those who wait for a thing and count, in the order of their numbers.
    func waiters(at resource: Resource) -> (writers: [ClaimID], readers: [ClaimID]) {
        if let known = waiters[resource] { return known }
        guard let waiting = arbiter.dockets[resource]?.waiting, mayTake(waiting.count / 8) else {
            return ([], [])
        }
        let found = (some(of: waiting.writers), some(of: waiting.readers))
        waiters[resource] = found
        return found
    }

    private struct Kind: Hashable {
        let kin: Kin
        let conduct: UInt8
    }

    private func some(of queue: ClaimQueue) -> [ClaimID] {
        if queue.count <= arbiter.crowd.queue { return Array(queue) }
        var seen: Set<Kind> = []
        return queue.filter { id in
            guard let claim = arbiter.claims[id] else { return false }
            let isAlike = claim.nature == .handle && claim.isOnOneItem && !claim.passes && !claim.isPut
            if !isAlike || arbiter.hungOn.contains(id) { return true }
            return seen.insert(Kind(kin: claim.kin, conduct: claim.conduct.rawValue)).inserted
        }
    }

    /// What programs hold of a thing.
    func holdings(of resource: Resource) -> Holdings {
        if let known = holdings[resource] { return known }
        let throng = arbiter.throngs[resource]
        guard mayTake(throng?.countOfActive ?? arbiter.dockets[resource]?.held.count ?? 0) else {
            return Holdings()
        }
        let groups = (throng ?? arbiter.throng(at: resource)).active
        guard throng != nil || take(groups.count) else { return Holdings() }
        var found = Holdings()
        for group in groups where group.kind.mayHang {
            let clan = group.kind.clan
            if let place = found.places[clan] {
                found.all[place].groups.append(group)
            } else if let party = arbiter.parties[group.first] {
                found.places[clan] = found.all.count
                parties[clan] = party
                found.all.append(Holding(clan: clan, party: party, groups: [group]))
            }
        }
        holdings[resource] = found
        return found
    }

    /// Holders of a thing within which others wait (D1).
    func outer(at resource: Resource) -> [ClaimID] {
        if let outer { return outer[resource] ?? [] }
        guard mayTake(arbiter.nested.count) else { return [] }
        var found: [Resource: [ClaimID]] = [:]
        for id in arbiter.nested.keys.sorted() {
            guard let claim = arbiter.claims[id], claim.isHeld else { continue }
            claim.forEachStake { found[$0.resource, default: []].append(id) }
        }
        outer = found
        return found[resource] ?? []
    }

    /// Waiting claims on which all hang that claims of one kin hold, whichever thread has it: those of other processes.
    func waitersHungOnByAll(of clan: Throng.Clan) -> [ClaimID] {
        if let known = hungOnByAll[clan] { return known }
        let kinship = arbiter.waiterKinship
        guard let party = parties[clan], mayTake(kinship.countOfOthers(than: party)) else { return [] }
        var found: Set<ClaimID> = []
        kinship.forEachOther(than: party) { id in
            // Of claims of the same process the thread tells.
            guard let other = arbiter.parties[id], other.isExempt(from: party),
                party.process == nil || party.process != other.process
            else { return }
            found.insert(id)
        }
        let sorted = found.sorted()
        hungOnByAll[clan] = sorted
        return sorted
    }

    /// Waiting claims of a holding's own process on which something of it hangs, each with the lowest number that does.
    func waitersOfProcess(of holding: Holding) -> [(waiting: ClaimID, holder: ClaimID)] {
        guard let process = holding.party.process else { return [] }
        let kinship = arbiter.waiterKinship
        let waiting = kinship.countOfClaims(of: process)
        let threads = holding.groups.reduce(0) { $0 + $1.threads.count }
        guard waiting > 0, mayTake(min(waiting, threads) + 1) else { return [] }
        let groups = holding.groups
        var found: [ClaimID: ClaimID] = [:]
        let note = { (id: ClaimID, holder: ClaimID) in
            guard let other = self.arbiter.parties[id], other.isExempt(from: holding.party) else { return }
            found[id] = min(holder, found[id] ?? holder)
        }
        if waiting <= threads {
            kinship.forEachClaim(of: process) { id in
                guard let other = arbiter.parties[id] else { return }
                // The process may be its partner.
                let thread = other.process == process ? other.thread : 0
                for group in groups { if let holder = group.first(hungOnBy: thread) { note(id, holder) } }
            }
        } else {
            for group in groups {
                kinship.forEachClaim(of: process, thread: 0) { if take(1) { note($0, group.first) } }
                for (thread, queue) in group.threads {
                    guard let holder = queue.first else { continue }
                    let offer = { (id: ClaimID) in if self.take(1) { note(id, holder) } }
                    if thread == 0 {
                        kinship.forEachClaim(of: process, offer)
                    } else {
                        kinship.forEachClaim(of: process, thread: thread, offer)
                    }
                }
            }
        }
        guard take(found.count) else { return [] }
        return found.sorted { $0.key < $1.key }.map { (waiting: $0.key, holder: $0.value) }
    }
}

extension Throng.Group {
    /// The lowest of those that hang on what waits by a thread of their process.
    func first(hungOnBy thread: Int32) -> ClaimID? {
        if thread == 0 { return first }
        switch (threads[thread]?.first, threads[0]?.first) {
        case (let one?, let other?): return min(one, other)
        case (let one, let other): return one ?? other
        }
    }
}
