// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The part of the wait-for graph that one search visits, within its limit of steps.
///
/// Of very many waiters for a resource, the threads of one program are alike: each waits for the holders and for all before
/// it. So one waiter stands for all on which no holder depends. It is the first, because a cycle is reported by its lowest
/// claim (D2). Of the handles that a program holds on a resource, alike handles of one thread count as one, too.
final class WaitForGraphView {
    /// The claims of one program that hold a resource and may depend on waiting claims.
    struct ProgramHold {
        let partyKey: HolderGroups.PartyKey
        let party: Party
        var groups: [HolderGroups.HolderGroup]
    }

    /// The holds of all programs on one resource.
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
    /// Holders within which other claims wait, by resource; nil until first used.
    private var outer: [Resource: [ClaimID]]?

    init(_ arbiter: Arbiter, most: Int) {
        self.arbiter = arbiter
        self.most = most
        limit = most
    }

    /// Whether all steps of the search are used up.
    var isExhausted: Bool { steps > most }
    /// Whether the steps of the present share are used up.
    var isSpent: Bool { steps > limit }

    /// Limits the steps to `count` until the next call.
    func allow(_ count: Int) { limit = count < most - steps ? steps + count : most }

    /// The steps that are left for the whole search.
    var left: Int { most - steps }

    /// Counts steps that were taken; returns whether more may be taken.
    func take(_ count: Int) -> Bool {
        steps += count
        return !isSpent
    }

    /// Counts steps only if they may be taken, and returns whether they may.
    func mayTake(_ count: Int) -> Bool {
        // A claim that needs too many steps must not use up those of the others.
        if count > limit - steps { steps = max(steps, limit + 1) } else { steps += count }
        return !isSpent
    }

    /// The waiters for a resource that are visited, in the order of their numbers.
    func waiters(at resource: Resource) -> (writers: [ClaimID], readers: [ClaimID]) {
        if let known = waiters[resource] { return known }
        guard let waiting = arbiter.locks[resource]?.waiting, mayTake(waiting.count / 8) else {
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
            if !isAlike || arbiter.waitForGraph.dependencyTargets.contains(id) { return true }
            return seen.insert(
                WaiterKind(partyNumber: claim.partyNumber, accessPattern: claim.accessPattern.rawValue)
            ).inserted
        }
    }

    /// The holds of all programs on a resource.
    func holdings(of resource: Resource) -> ProgramHolds {
        if let known = holdings[resource] { return known }
        let grouping = arbiter.locks.groups(at: resource)
        guard mayTake(grouping?.countOfActive ?? arbiter.locks[resource]?.held.count ?? 0) else {
            return ProgramHolds()
        }
        let groups = (grouping ?? arbiter.grouping(at: resource)).active
        guard grouping != nil || take(groups.count) else { return ProgramHolds() }
        var found = ProgramHolds()
        for group in groups where group.kind.mayDepend {
            let partyKey = group.kind.partyKey
            if let place = found.places[partyKey] {
                found.all[place].groups.append(group)
            } else if let party = arbiter.families.party(of: group.first) {
                found.places[partyKey] = found.all.count
                parties[partyKey] = party
                found.all.append(ProgramHold(partyKey: partyKey, party: party, groups: [group]))
            }
        }
        holdings[resource] = found
        return found
    }

    /// The holders of a resource within which other claims wait (D1).
    func outer(at resource: Resource) -> [ClaimID] {
        if let outer { return outer[resource] ?? [] }
        guard mayTake(arbiter.waitForGraph.countOfOuter) else { return [] }
        var found: [Resource: [ClaimID]] = [:]
        for id in arbiter.waitForGraph.outerClaims {
            guard let claim = arbiter.claims[id], claim.isHeld else { continue }
            claim.forEachRequiredLock { found[$0.resource, default: []].append(id) }
        }
        outer = found
        return found[resource] ?? []
    }

    /// Waiting claims of other processes on which all claims of a program depend, whichever thread made them.
    func dependencyTargetsOfAllThreads(of partyKey: HolderGroups.PartyKey) -> [ClaimID] {
        if let known = targetsOfAllThreads[partyKey] { return known }
        let families = arbiter.families.waiters
        guard let party = parties[partyKey], mayTake(families.countOfOthers(than: party)) else { return [] }
        var found: Set<ClaimID> = []
        families.forEachOther(than: party) { id in
            // Within one process, dependence is a matter of threads.
            guard let other = arbiter.families.party(of: id), other.isExempt(from: party),
                party.process == nil || party.process != other.process
            else { return }
            found.insert(id)
        }
        let sorted = found.sorted()
        targetsOfAllThreads[partyKey] = sorted
        return sorted
    }

    /// Waiting claims of a hold's own process on which one of its claims depends, each with the lowest such claim.
    func waitersOfProcess(of holding: ProgramHold) -> [(waiting: ClaimID, holder: ClaimID)] {
        guard let process = holding.party.process else { return [] }
        let families = arbiter.families.waiters
        let waiting = families.countOfClaims(of: process)
        let threads = holding.groups.reduce(0) { $0 + $1.threads.count }
        guard waiting > 0, mayTake(min(waiting, threads) + 1) else { return [] }
        let groups = holding.groups
        var found: [ClaimID: ClaimID] = [:]
        let note = { (id: ClaimID, holder: ClaimID) in
            guard let other = self.arbiter.families.party(of: id), other.isExempt(from: holding.party) else {
                return
            }
            found[id] = min(holder, found[id] ?? holder)
        }
        if waiting <= threads {
            families.forEachClaim(of: process) { id in
                guard let other = arbiter.families.party(of: id) else { return }
                // If the process is its partner, the thread is not known.
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
    /// The lowest claim that depends on a waiting claim of a thread of the same process.
    func first(dependingOn thread: Int32) -> ClaimID? {
        if thread == 0 { return first }
        switch (threads[thread]?.first, threads[0]?.first) {
        case (let one?, let other?): return min(one, other)
        case (let one, let other): return one ?? other
        }
    }
}
