// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The work that the present event still has to do.
///
/// A step may add work to any list, also to those of earlier steps.
///
/// Invariants (I4):
///
/// - Between two events all lists are empty.
/// - A step is taken only if the lists of all earlier steps are empty. The order of ``Step`` is the order of the steps.
/// - A list may name a claim twice, or a claim that has ended; ``next(isSearchDue:)`` counts only whether it is empty.
struct Agenda: Sendable {
    /// The kinds of work, the first one first.
    enum Step: Sendable {
        case reviewResources
        case reviewGrantCandidates
        case reviewNewHolders
        case reviewContentions
        case searchForCycles
    }

    /// Resources to or from which claims were moved: all claims on them are reviewed once for each step (R3).
    private var resources: Set<Resource> = []
    /// Waiting claims that may have no blocker any more.
    private var grantCandidates: [ClaimID] = []
    /// Identified holders that may now hold up waiting claims that they did not hold up before.
    private(set) var newHolders: [ClaimID] = []
    /// Holders that may have become contended, or may be so no longer.
    private var holders: [ClaimID] = []
    /// Resources at which another holder may become contended, because a contended holder left or a claim began to wait
    /// (Y11).
    private var contentionSlots: Set<Resource> = []
    /// For each holder that may block a claim which has just begun to wait: that claim.
    private var newWaiters: [ClaimID: ClaimID] = [:]
    /// Waiting claims through which a new cycle may lead (D2).
    private var cycleCandidates: [ClaimID] = []

    var isEmpty: Bool { next(isSearchDue: false) == nil }

    /// The next step; nil if there is nothing left to do.
    func next(isSearchDue: @autoclosure () -> Bool) -> Step? {
        if !resources.isEmpty { return .reviewResources }
        if !grantCandidates.isEmpty { return .reviewGrantCandidates }
        if !newHolders.isEmpty { return .reviewNewHolders }
        if !holders.isEmpty || !contentionSlots.isEmpty { return .reviewContentions }
        return !cycleCandidates.isEmpty || isSearchDue() ? .searchForCycles : nil
    }
}

/// Resources and waiting claims.
extension Agenda {
    mutating func addResources(_ added: [Resource]) { resources.formUnion(added) }

    /// Removes the resources, and returns them in the order of their numbers.
    mutating func takeResources() -> [Resource] {
        defer { resources = [] }
        return resources.sorted()
    }

    mutating func addGrantCandidate(_ claim: ClaimID) { grantCandidates.append(claim) }
    mutating func addGrantCandidates(_ claims: some Sequence<ClaimID>) { grantCandidates += claims }

    /// Removes the candidates, and returns them in the order of their numbers.
    mutating func takeGrantCandidates() -> [ClaimID] {
        defer { grantCandidates.removeAll(keepingCapacity: true) }
        return grantCandidates.sorted()
    }

    mutating func addNewHolder(_ claim: ClaimID) { newHolders.append(claim) }
    mutating func clearNewHolders() { newHolders.removeAll(keepingCapacity: true) }
}

/// Holders and their contention.
extension Agenda {
    var hasContentionSlots: Bool { !contentionSlots.isEmpty }
    /// The resources at which another holder may become contended, in the order of their numbers.
    var sortedContentionSlots: [Resource] { contentionSlots.sorted() }

    mutating func addHolder(_ claim: ClaimID) { holders.append(claim) }
    mutating func addHolders(_ claims: some Sequence<ClaimID>) { holders += claims }

    /// Adds a holder that blocks a claim which has just begun to wait.
    mutating func addHolder(_ claim: ClaimID, blocking waiter: ClaimID) {
        holders.append(claim)
        newWaiters[claim] = waiter
    }

    /// Removes the holders, and returns them in the order of their numbers.
    mutating func takeHolders() -> [ClaimID] {
        defer { holders.removeAll(keepingCapacity: true) }
        return holders.sorted()
    }

    /// The claim that has just begun to wait for a holder; nil if none has.
    func newWaiter(for holder: ClaimID) -> ClaimID? { newWaiters[holder] }
    mutating func clearNewWaiters() { if !newWaiters.isEmpty { newWaiters.removeAll(keepingCapacity: true) } }

    mutating func addContentionSlot(at resource: Resource) { contentionSlots.insert(resource) }
    mutating func removeContentionSlot(at resource: Resource) { contentionSlots.remove(resource) }
}

/// Candidates for cycles.
extension Agenda {
    mutating func addCycleCandidate(_ claim: ClaimID) { cycleCandidates.append(claim) }
    mutating func addCycleCandidates(_ claims: some Sequence<ClaimID>) { cycleCandidates += claims }

    /// Removes the candidates; returns them, and how many were added.
    mutating func takeCycleCandidates() -> (claims: Set<ClaimID>, added: Int) {
        defer { cycleCandidates.removeAll(keepingCapacity: true) }
        return (Set(cycleCandidates), cycleCandidates.count)
    }
}
