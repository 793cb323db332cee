// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The edges of the wait-for graph that are not in the lock queues, and the schedule of the searches for cycles.
///
/// In a lock queue, a claim waits only for earlier claims, so a cycle needs at least one edge that is stored here (D2).
///
/// Invariants (I4, I6):
///
/// - `nested` lists each waiting claim under every claim within which it was made (D1).
/// - `answering` lists each claim under the question that it was made to answer (D1).
/// - `dependencyTargets` has only waiting claims. Unless `isBehind` is true, it has every waiting claim on which a
///   holder depends.
/// - While no search is deferred, there is no cycle.
struct WaitForGraph: Sendable {
    private var nested: [ClaimID: [ClaimID]] = [:]
    private var answering: [QuestionID: [ClaimID]] = [:]
    /// D2: Waiting claims on which holders depend or have depended.
    private(set) var dependencyTargets: Set<ClaimID> = []
    /// Whether some claims may be missing in `dependencyTargets`.
    private(set) var isBehind = false
    var schedule = CycleSearchSchedule()

    /// Whether no claim was made within another claim or to answer a question.
    var isEmpty: Bool { nested.isEmpty && answering.isEmpty }
    /// D2: Whether any edge is stored in this graph; without one there is no cycle.
    var mayHaveCycles: Bool { !answering.isEmpty || !nested.isEmpty || !dependencyTargets.isEmpty }
    /// The number of claims within which other waiting claims were made.
    var countOfOuter: Int { nested.count }
    /// The number of entries of all indexes.
    var count: Int { nested.count + answering.count + dependencyTargets.count }
}

/// D1: Claims that were made within other claims, or to answer a question.
extension WaitForGraph {
    /// Whether any claim was made to answer a question.
    var hasAnswering: Bool { !answering.isEmpty }

    /// The waiting claims that a program made while its own claim `outer` was held.
    func nested(in outer: ClaimID) -> [ClaimID] { nested[outer] ?? [] }

    /// The claims within which waiting claims were made, in the order of their numbers.
    var outerClaims: [ClaimID] { nested.keys.sorted() }

    /// The number of pairs of a waiting claim and a claim within which it was made.
    var countOfNested: Int { nested.values.reduce(0) { $0 + $1.count } }

    /// The claims that were made to answer a question, held and waiting.
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

    /// Adds a claim that begins to wait to the lists of the claims within which it was made.
    mutating func addWaiter(_ claim: Claim) {
        for outer in claim.within { nested[outer, default: []].append(claim.id) }
    }

    /// Removes a claim that no longer waits from the lists of this graph.
    mutating func removeWaiter(_ claim: Claim) {
        dependencyTargets.remove(claim.id)
        for outer in claim.within {
            nested[outer]?.removeAll { $0 == claim.id }
            if nested[outer]?.isEmpty ?? false { nested[outer] = nil }
        }
    }
}

/// D2: Waiting claims on which holders depend.
extension WaitForGraph {
    mutating func addDependencyTarget(_ claim: ClaimID) { dependencyTargets.insert(claim) }

    /// Replaces `dependencyTargets` by a newly found set, which is complete.
    mutating func setDependencyTargets(_ targets: Set<ClaimID>) {
        (dependencyTargets, isBehind) = (targets, false)
    }

    /// D5: Notes that `dependencyTargets` may lack some claims, because new waiting claims were not checked.
    mutating func fallBehind() { isBehind = true }
}
