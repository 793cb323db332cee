// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The edges of the wait-for graph that lock queues do not have, and when cycles are searched for.
///
/// Queues lead only to earlier claims, so every cycle has one of these edges (D2).
///
/// Invariants (I4, I6):
///
/// - `nested` lists each waiting claim at every claim within which it was made (D1).
/// - `answering` lists each live claim at the question that it was made to answer (D1).
/// - `dependencyTargets` has waiting claims only. It has each on which a holder depends, unless `isBehind`.
/// - If no search is deferred, there is no cycle.
struct WaitForGraph: Sendable {
    private var nested: [ClaimID: [ClaimID]] = [:]
    private var answering: [QuestionID: [ClaimID]] = [:]
    /// Waiting claims on which holders depend or have depended (D2).
    private(set) var dependencyTargets: Set<ClaimID> = []
    /// Whether `dependencyTargets` may lack claims.
    private(set) var isBehind = false
    var schedule = CycleSearchSchedule()

    /// Whether no live claim is nested or answers a question.
    var isEmpty: Bool { nested.isEmpty && answering.isEmpty }
    /// D2: Whether claims wait for anything but queues.
    var mayHaveCycles: Bool { !answering.isEmpty || !nested.isEmpty || !dependencyTargets.isEmpty }
    /// The number of claims within which others wait.
    var countOfOuter: Int { nested.count }
    /// The number of entries of all indexes.
    var count: Int { nested.count + answering.count + dependencyTargets.count }
}

/// Claims that were made within others, or to answer a question (D1).
extension WaitForGraph {
    /// Whether a claim was made to answer any question.
    var hasAnswering: Bool { !answering.isEmpty }

    /// The waiting claims that were made within a claim.
    func nested(in outer: ClaimID) -> [ClaimID] { nested[outer] ?? [] }

    /// The claims within which others wait, in the order of their numbers.
    var outerClaims: [ClaimID] { nested.keys.sorted() }

    /// The number of nested claims; each counts once for every claim within which it was made.
    var countOfNested: Int { nested.values.reduce(0) { $0 + $1.count } }

    /// The live claims that were made to answer a question.
    func claims(answering question: QuestionID) -> [ClaimID] { answering[question] ?? [] }

    @inline(__always)
    mutating func add(_ claim: Claim) {
        if let question = claim.answering { answering[question, default: []].append(claim.id) }
    }

    mutating func remove(_ claim: Claim) {
        guard let question = claim.answering else { return }
        answering[question]?.removeAll { $0 == claim.id }
        if answering[question]?.isEmpty ?? false { answering[question] = nil }
    }

    /// Adds the edges to a claim that begins to wait.
    mutating func addWaiter(_ claim: Claim) {
        for outer in claim.within { nested[outer, default: []].append(claim.id) }
    }

    /// Removes the edges to a claim that no longer waits.
    mutating func removeWaiter(_ claim: Claim) {
        dependencyTargets.remove(claim.id)
        for outer in claim.within {
            nested[outer]?.removeAll { $0 == claim.id }
            if nested[outer]?.isEmpty ?? false { nested[outer] = nil }
        }
    }
}

/// Waiting claims on which holders depend (D2).
extension WaitForGraph {
    mutating func addDependencyTarget(_ claim: ClaimID) { dependencyTargets.insert(claim) }

    /// Replaces the dependency targets by those found anew.
    mutating func setDependencyTargets(_ targets: Set<ClaimID>) {
        (dependencyTargets, isBehind) = (targets, false)
    }

    /// D5: Notes that candidates were not checked for being dependency targets.
    mutating func fallBehind() { isBehind = true }
}
