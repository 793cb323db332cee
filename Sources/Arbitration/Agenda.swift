// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The steps that the arbiter still has to run for the present event.
///
/// Each step has lists of claims or resources to review. A step can add entries to any list, even to the list of an
/// earlier step.
///
/// Invariants (I4):
///
/// - Between two events all lists are empty.
/// - A step runs only if the lists of all earlier steps are empty. The cases of ``Step`` are in the order of the
///   steps.
/// - A list can contain a claim twice, or a claim that has ended.
struct Agenda: Sendable {
    /// The steps of the work, in the order in which they run.
    enum Step: Sendable {
        case reviewResources
        case reviewGrantCandidates
        case reviewNewHolders
        case reviewContentions
        case searchForCycles
    }

    /// R3: Resources that have gained or lost claims because items or claims were moved. All claims on these resources
    /// must be reviewed.
    private var resources: Set<Resource> = []
    /// Waiting claims that are perhaps no longer blocked, and can then be granted.
    private var grantCandidates: [ClaimID] = []
    /// Holders that were granted or identified in this event. Other claims of such a holder's program can then be
    /// granted before claims that wait for the holder.
    private(set) var newHolders: [ClaimID] = []
    /// Holders for which the contention may have to begin or end.
    private var holders: [ClaimID] = []
    /// Y11: Resources at which one more holder is perhaps allowed to begin a contention. A contention has ended there,
    /// or a claim has begun to wait there.
    private var contentionSlots: Set<Resource> = []
    /// Claims that began to wait in this event, each under a holder that perhaps blocks the claim.
    private var newWaiters: [ClaimID: ClaimID] = [:]
    /// D2: Waiting claims that may now be part of a cycle.
    private var cycleCandidates: [ClaimID] = []

    var isEmpty: Bool { next(isSearchDue: false) == nil }

    /// The next step to run; nil if no work is left.
    func next(isSearchDue: @autoclosure () -> Bool) -> Step? {
        if !resources.isEmpty { return .reviewResources }
        if !grantCandidates.isEmpty { return .reviewGrantCandidates }
        if !newHolders.isEmpty { return .reviewNewHolders }
        if !holders.isEmpty || !contentionSlots.isEmpty { return .reviewContentions }
        return !cycleCandidates.isEmpty || isSearchDue() ? .searchForCycles : nil
    }
}

/// The list of resources, and the list of claims that can perhaps be granted.
extension Agenda {
    mutating func addResources(_ added: [Resource]) { resources.formUnion(added) }

    /// Empties the list of resources, and returns the resources in the order of their numbers.
    mutating func takeResources() -> [Resource] {
        defer { resources = [] }
        return resources.sorted()
    }

    mutating func addGrantCandidate(_ claim: ClaimID) { grantCandidates.append(claim) }
    mutating func addGrantCandidates(_ claims: some Sequence<ClaimID>) { grantCandidates += claims }

    /// Empties the list of claims that can perhaps be granted, and returns the claims in the order of their numbers.
    mutating func takeGrantCandidates() -> [ClaimID] {
        defer { grantCandidates.removeAll(keepingCapacity: true) }
        return grantCandidates.sorted()
    }

    mutating func addNewHolder(_ claim: ClaimID) { newHolders.append(claim) }
    mutating func clearNewHolders() { newHolders.removeAll(keepingCapacity: true) }
}

/// The lists for contentions.
extension Agenda {
    var hasContentionSlots: Bool { !contentionSlots.isEmpty }
    /// The resources at which one more holder is perhaps allowed to begin a contention, in the order of their numbers.
    var sortedContentionSlots: [Resource] { contentionSlots.sorted() }

    mutating func addHolder(_ claim: ClaimID) { holders.append(claim) }
    mutating func addHolders(_ claims: some Sequence<ClaimID>) { holders += claims }

    /// Adds a holder that blocks a claim which has just begun to wait.
    mutating func addHolder(_ claim: ClaimID, blocking waiter: ClaimID) {
        holders.append(claim)
        newWaiters[claim] = waiter
    }

    /// Empties the list of holders, and returns the holders in the order of their numbers.
    mutating func takeHolders() -> [ClaimID] {
        defer { holders.removeAll(keepingCapacity: true) }
        return holders.sorted()
    }

    /// The claim that began to wait for a holder in this event; nil if there is none.
    func newWaiter(for holder: ClaimID) -> ClaimID? { newWaiters[holder] }
    mutating func clearNewWaiters() { if !newWaiters.isEmpty { newWaiters.removeAll(keepingCapacity: true) } }

    mutating func addContentionSlot(at resource: Resource) { contentionSlots.insert(resource) }
    mutating func removeContentionSlot(at resource: Resource) { contentionSlots.remove(resource) }
}

/// The list of claims that may be part of a cycle.
extension Agenda {
    mutating func addCycleCandidate(_ claim: ClaimID) { cycleCandidates.append(claim) }
    mutating func addCycleCandidates(_ claims: some Sequence<ClaimID>) { cycleCandidates += claims }

    /// Empties the list of claims that may be in a cycle. Returns the claims without duplicates, and the number of
    /// entries that the list had.
    mutating func takeCycleCandidates() -> (claims: Set<ClaimID>, added: Int) {
        defer { cycleCandidates.removeAll(keepingCapacity: true) }
        return (Set(cycleCandidates), cycleCandidates.count)
    }
}
