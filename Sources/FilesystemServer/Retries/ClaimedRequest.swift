// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Synchronization

/// A request without a handle that claims the item it changes: a size or names.
///
///     made ──claimed──▶ waiting ──decided──▶ decided
///
/// The kernel holds a lock for it. If its claim must wait, the request is answered ESTALE, and the decision is stored here
/// until the retry.
final class ClaimedRequest: Claimant, PreservationSubject {
    /// The operation that the kernel asks for; a retried request is recognised by it.
    enum Kind: Sendable {
        case resizing(Node, below: Node?)
        case making(NameChange)
        case removing(NameChange)
        case renaming(NameChange, to: NameChange)
    }

    private enum Claiming {
        case unclaimed
        /// A thread has claimed, or is about to.
        case waiting
        case decided(Engine.Decision)

        var decision: Engine.Decision? { if case .decided(let decision) = self { decision } else { nil } }
    }

    private struct State {
        var claiming = Claiming.unclaimed
        /// The request does not come back for the claim.
        var isOver = false
        /// Empty once decided.
        var outcomes: [Engine.DecisionHandler] = []
    }

    let kind: Kind
    let request: ClaimRequest
    let thread: Int32
    /// Whether a name is vacated in the middle of a save, and by which process, assessed when the request was made.
    let save: SaveAssessment?
    let isInPackage: Bool
    private let made = Engine.now
    private unowned let processes: ProcessResolver
    private let state = Mutex(State())

    init(
        _ kind: Kind, _ request: ClaimRequest, save: SaveAssessment? = nil, isInPackage: Bool = false,
        by thread: Int32,
        processes: ProcessResolver
    ) {
        self.kind = kind
        self.request = request
        self.save = save
        self.isInPackage = isInPackage
        self.thread = thread
        self.processes = processes
    }

    var claim: ClaimID { request.claim }
    var intents: [Intent] {
        switch kind {
        case .renaming(_, let target) where !request.rest.isEmpty:
            [Intent(request.first.access, to: attribution.path)]
                + request.rest.map { Intent($0.access, to: target.subject.attribution.path) }
        case .resizing, .making, .removing, .renaming: [Intent(request.first.access, to: attribution.path)]
        }
    }
    func identify() -> Party { processes.party(ofThread: thread, notAfter: made) }
    /// Never called: the wait of a request is bounded without observation.
    func observe() -> Observation { .emptied }

    var attribution: Attribution {
        switch kind {
        case .resizing(let node, _): Attribution(thread: thread, at: made) { node.path }
        case .making(let change), .removing(let change), .renaming(let change, _): change.subject.attribution
        }
    }

    /// The user of the caller.
    var user: UInt32? {
        switch kind {
        case .resizing: identify().user
        case .making(let change), .removing(let change), .renaming(let change, _): change.caller.user
        }
    }

    /// The directory of the request: the kernel asks for its attributes during the retry.
    var directory: Node? {
        switch kind {
        case .resizing(_, let directory): directory
        case .making(let change), .removing(let change), .renaming(let change, _): change.directory
        }
    }

    /// The name that the request takes away, if any.
    var vacated: NameChange? {
        switch kind {
        case .resizing, .making: nil
        case .removing(let change), .renaming(let change, _): change
        }
    }

    /// Whether its claim ends when it is decided: the retried request then makes a claim of its own.
    ///
    /// In a package, other requests change other names under the same claim. A claim held for the retry would block a request
    /// that came back first. That request has the kernel's lock for which the retry waits.
    var endsWhenDecided: Bool {
        if case .making = kind { return true }
        return isInPackage
    }

    /// The assessed save that takes a node's name away, if the request is about the node's document.
    func save(of node: Node) -> SaveAssessment? { request.first.item == node.item ? save : nil }

    /// Whether a request of this kind by the same thread may be the retry of this request.
    ///
    /// A truncated path leads to another file if the document was saved or replaced meanwhile. The kernel has used its retry
    /// then, so the request must not be retried again for any file.
    func mayBeRetried(as kind: Kind) -> Bool {
        if case .resizing = kind, case .resizing = self.kind { return true }
        return self.kind.isSame(as: kind)
    }

    /// Whether both are about the same documents: their names may have been exchanged.
    func hasSameItems(as other: ClaimedRequest) -> Bool {
        request.first.item == other.request.first.item
            && request.rest.map(\.item) == other.request.rest.map(\.item)
    }
}

// The claim, which the request's thread and the end of a delay may both try to make.
extension ClaimedRequest {
    /// Whether the caller is to claim now; true only for the first caller.
    func beginClaiming() -> Bool {
        state.withLock { state in
            guard case .unclaimed = state.claiming, !state.isOver else { return false }
            state.claiming = .waiting
            return true
        }
    }

    /// Marks that the request does not come back; a thread that claims afterwards ends the claim.
    func giveUp() { state.withLock { $0.isOver = true } }

    var isOver: Bool { state.withLock { $0.isOver } }
    var isWaiting: Bool { state.withLock { if case .waiting = $0.claiming { true } else { false } } }

    func decide(_ decision: Engine.Decision) {
        let outcomes = state.withLock { state in
            state.claiming = .decided(decision)
            defer { state.outcomes = [] }
            return state.outcomes
        }
        for outcome in outcomes { outcome(decision) }
    }

    /// `outcome` runs exactly once: at once if the claim is decided, otherwise on the thread that decides it.
    func whenDecided(_ outcome: @escaping Engine.DecisionHandler) {
        let decision: Engine.Decision? = state.withLock { state in
            let decision = state.claiming.decision
            if decision == nil { state.outcomes.append(outcome) }
            return decision
        }
        if let decision { outcome(decision) }
    }
}

extension ClaimedRequest.Kind {
    func isSame(as other: Self) -> Bool {
        switch (self, other) {
        case (.resizing(let one, _), .resizing(let other, _)): one === other
        case (.making(let one), .making(let other)), (.removing(let one), .removing(let other)):
            one.isSame(as: other)
        case (.renaming(let one, let place), .renaming(let other, let otherPlace)):
            one.isSame(as: other) && place.isSame(as: otherPlace)
        case (.resizing, _), (.making, _), (.removing, _), (.renaming, _): false
        }
    }
}
