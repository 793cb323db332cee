// SPDX-License-Identifier: Apache-2.0
import Coordination

/// What one search for cycles looks at, and how much it may.
///
/// Of very many that wait for one thing, threads of one program are alike: each waits for those that hold it, and for those
/// before it. One of them stands for all on whom nothing hangs, and that is the first, because a cycle is told by its lowest
/// claim (D2). Of what one program holds of a thing, handles of one thread that are alike are one, too.
final class WaitForGraphView {
    /// What claims of one kin hold of a thing, so that they may hang on something.
    struct ProgramHold {
        let partyKey: HolderGroups.PartyKey
        let party: Party
        var groups: [HolderGroups.HolderGroup]
    }

    /// What programs hold of one thing.
    struct ProgramHolds {
        var all: [ProgramHold] = []
        fileprivate var places: [HolderGroups.PartyKey: Int] = [:]

        func place(of claim: Claim) -> Int? {
            claim.partyNumber == 0
                ? nil : places[HolderGroups.PartyKey(partyNumber: claim.partyNumber, purpose: nil)]
        }
    }

    let arbiter: Arbiter
    private let most: Int
    private var limit: Int
    private(set) var steps = 0
    private var waiters: [Resource: (writers: [ClaimID], readers: [ClaimID])] = [:]
    private var holdings: [Resource: ProgramHolds] = [:]
    private var parties: [HolderGroups.PartyKey: Party] = [:]
    private var targetsOfAllThreads: [HolderGroups.PartyKey: [ClaimID]] = [:]
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
        guard let waiting = arbiter.lockQueues[resource]?.waiting, mayTake(waiting.count / 8) else {
            return ([], [])
        }
        let found = (some(of: waiting.writers), some(of: waiting.readers))
        waiters[resource] = found
        return found
    }

    private struct WaiterKind: Hashable {
        let partyNumber: PartyNumber
        let accessPattern: UInt8
    }

    private func some(of queue: ClaimQueue) -> [ClaimID] {
        if queue.count <= arbiter.limits.queue { return Array(queue) }
        var seen: Set<WaiterKind> = []
        return queue.filter { id in
            guard let claim = arbiter.claims[id] else { return false }
            let isAlike =
                claim.nature == .handle && claim.isOnOneItem && !claim.overtakes && !claim.hasConsulted
            if !isAlike || arbiter.dependencyTargets.contains(id) { return true }
            return seen.insert(
                WaiterKind(partyNumber: claim.partyNumber, accessPattern: claim.accessPattern.rawValue)
            ).inserted
        }
    }

    /// What programs hold of a thing.
    func holdings(of resource: Resource) -> ProgramHolds {
        if let known = holdings[resource] { return known }
        let grouping = arbiter.holderGroups[resource]
        guard mayTake(grouping?.countOfActive ?? arbiter.lockQueues[resource]?.held.count ?? 0) else {
            return ProgramHolds()
        }
        let groups = (grouping ?? arbiter.grouping(at: resource)).active
        guard grouping != nil || take(groups.count) else { return ProgramHolds() }
        var found = ProgramHolds()
        for group in groups where group.kind.mayDepend {
            let partyKey = group.kind.partyKey
            if let place = found.places[partyKey] {
                found.all[place].groups.append(group)
            } else if let party = arbiter.parties[group.first] {
                found.places[partyKey] = found.all.count
                parties[partyKey] = party
                found.all.append(ProgramHold(partyKey: partyKey, party: party, groups: [group]))
            }
        }
        holdings[resource] = found
        return found
    }

    /// Holders of a thing within which others wait (D1).
    func outer(at resource: Resource) -> [ClaimID] {
        if let outer { return outer[resource] ?? [] }
        guard mayTake(arbiter.nestedWaiters.count) else { return [] }
        var found: [Resource: [ClaimID]] = [:]
        for id in arbiter.nestedWaiters.keys.sorted() {
            guard let claim = arbiter.claims[id], claim.isHeld else { continue }
            claim.forEachRequiredLock { found[$0.resource, default: []].append(id) }
        }
        outer = found
        return found[resource] ?? []
    }

    /// Waiting claims on which all hang that claims of one kin hold, whichever thread has it: those of other processes.
    func dependencyTargetsOfAllThreads(of partyKey: HolderGroups.PartyKey) -> [ClaimID] {
        if let known = targetsOfAllThreads[partyKey] { return known }
        let families = arbiter.waiterFamilies
        guard let party = parties[partyKey], mayTake(families.countOfOthers(than: party)) else { return [] }
        var found: Set<ClaimID> = []
        families.forEachOther(than: party) { id in
            // Of claims of the same process the thread tells.
            guard let other = arbiter.parties[id], other.isExempt(from: party),
                party.process == nil || party.process != other.process
            else { return }
            found.insert(id)
        }
        let sorted = found.sorted()
        targetsOfAllThreads[partyKey] = sorted
        return sorted
    }

    /// Waiting claims of a holding's own process on which something of it hangs, each with the lowest number that does.
    func waitersOfProcess(of holding: ProgramHold) -> [(waiting: ClaimID, holder: ClaimID)] {
        guard let process = holding.party.process else { return [] }
        let families = arbiter.waiterFamilies
        let waiting = families.countOfClaims(of: process)
        let threads = holding.groups.reduce(0) { $0 + $1.threads.count }
        guard waiting > 0, mayTake(min(waiting, threads) + 1) else { return [] }
        let groups = holding.groups
        var found: [ClaimID: ClaimID] = [:]
        let note = { (id: ClaimID, holder: ClaimID) in
            guard let other = self.arbiter.parties[id], other.isExempt(from: holding.party) else { return }
            found[id] = min(holder, found[id] ?? holder)
        }
        if waiting <= threads {
            families.forEachClaim(of: process) { id in
                guard let other = arbiter.parties[id] else { return }
                // The process may be its partner.
                let thread = other.process == process ? other.thread : 0
                for group in groups { if let holder = group.first(dependingOn: thread) { note(id, holder) } }
            }
        } else {
            for group in groups {
                families.forEachClaim(of: process, thread: 0) { if take(1) { note($0, group.first) } }
                for (thread, queue) in group.threads {
                    guard let holder = queue.first else { continue }
                    let offer = { (id: ClaimID) in if self.take(1) { note(id, holder) } }
                    if thread == 0 {
                        families.forEachClaim(of: process, offer)
                    } else {
                        families.forEachClaim(of: process, thread: thread, offer)
                    }
                }
            }
        }
        guard take(found.count) else { return [] }
        return found.sorted { $0.key < $1.key }.map { (waiting: $0.key, holder: $0.value) }
    }
}

extension HolderGroups.HolderGroup {
    /// The lowest of those that hang on what waits by a thread of their process.
    func first(dependingOn thread: Int32) -> ClaimID? {
        if thread == 0 { return first }
        switch (threads[thread]?.first, threads[0]?.first) {
        case (let one?, let other?): return min(one, other)
        case (let one, let other): return one ?? other
        }
    }
}
