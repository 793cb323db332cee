// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The part of the wait-for graph that one search visits within its limit of steps.
///
/// Very many threads of one program can wait for one resource, and each waits for the same holders and for all earlier
/// claims. So the search visits only the first of these threads' claims, and the claims on which a holder depends. All
/// handles by which one thread holds a resource are treated as a single holder.
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
    /// For each resource, the holders within which waiting claims were made. Nil until ``outer(at:)`` is first called.
    private var outer: [Resource: [ClaimID]]?

    init(_ arbiter: Arbiter, most: Int) {
        self.arbiter = arbiter
        self.most = most
        limit = most
    }

    /// Whether the search has used up all its steps.
    var isExhausted: Bool { steps > most }
    /// Whether the steps that ``allow(_:)`` has set are used up.
    var isSpent: Bool { steps > limit }

    /// Allows `count` more steps from now on, but not more than the whole search has left.
    func allow(_ count: Int) { limit = count < most - steps ? steps + count : most }

    /// The number of steps that the whole search has left.
    var left: Int { most - steps }

    /// Counts steps that were taken. Returns whether further steps are allowed.
    func take(_ count: Int) -> Bool {
        steps += count
        return !isSpent
    }

    /// Counts steps only if at least `count` steps are left. Returns whether there were enough.
    func mayTake(_ count: Int) -> Bool {
        // A claim that needs too many steps must not use up the steps of other claims.
        if count > limit - steps { steps = max(steps, limit + 1) } else { steps += count }
        return !isSpent
    }

    /// Of the claims that wait for a resource, the claims that the search visits, in the order of their numbers.
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

    /// D1: The holders of a resource within which waiting claims were made.
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

    /// The waiting claims of other processes on which all claims of a program depend, no matter which thread made
    /// them.
    func dependencyTargetsOfAllThreads(of partyKey: HolderGroups.PartyKey) -> [ClaimID] {
        if let known = targetsOfAllThreads[partyKey] { return known }
        let families = arbiter.families.waiters
        guard let party = parties[partyKey], mayTake(families.countOfOthers(than: party)) else { return [] }
        var found: Set<ClaimID> = []
        families.forEachOther(than: party) { id in
            // For a claim of the same process, dependence is decided by the threads of both claims.
            guard let other = arbiter.families.party(of: id), other.isExempt(from: party),
                party.process == nil || party.process != other.process
            else { return }
            found.insert(id)
        }
        let sorted = found.sorted()
        targetsOfAllThreads[partyKey] = sorted
        return sorted
    }

    /// The waiting claims of the holder's own process on which the program's hold depends. Each is paired with the
    /// lowest held claim that depends on it.
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
                // If the process is only the partner of the claim's party (a second process that counts as the party),
                // the thread is not known.
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
    /// The lowest of the group's claims that depend on a waiting claim of the given thread. The thread is a thread of
    /// the group's process.
    func first(dependingOn thread: Int32) -> ClaimID? {
        if thread == 0 { return first }
        switch (threads[thread]?.first, threads[0]?.first) {
        case (let one?, let other?): return min(one, other)
        case (let one, let other): return one ?? other
        }
    }
}
