// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Synchronization

/// A request that makes a claim without a handle: it changes names, or the size of a file.
///
///     made ──claimed──▶ waiting ──decided──▶ decided
///
/// The kernel holds a lock for such a request. If the request's claim must wait, the daemon answers ESTALE, so that the
/// kernel drops the lock and tries again. This object stores the decision about the claim until the retry.
final class ClaimedRequest: Claimant, PreservationSubject {
    /// The operation that the kernel asks for. The daemon recognises a retry by its operation, which is the same as
    /// before.
    enum Kind: Sendable {
        case resizing(Node, below: Node?)
        case making(NameChange)
        case removing(NameChange)
        case renaming(NameChange, to: NameChange)
    }

    private enum Claiming {
        case unclaimed
        /// A thread has made the claim, or is about to make it.
        case waiting
        case decided(Engine.Decision)

        var decision: Engine.Decision? { if case .decided(let decision) = self { decision } else { nil } }
    }

    private struct State {
        var claiming = Claiming.unclaimed
        /// Whether the kernel will not retry the request, so that no claim is needed.
        var isOver = false
        /// The closures to run when the claim is decided; empty from then on.
        var outcomes: [Engine.DecisionHandler] = []
    }

    let kind: Kind
    let request: ClaimRequest
    let thread: Int32
    /// The save that takes a name away by this request, if any, as assessed when the request was made.
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
    /// Never called: the claim ends with its request, so the daemon does not observe the holder of the claim.
    func observe() -> Observation { .emptied }

    var attribution: Attribution {
        switch kind {
        case .resizing(let node, _): Attribution(thread: thread, at: made) { node.path }
        case .making(let change), .removing(let change), .renaming(let change, _): change.subject.attribution
        }
    }

    /// The user of the program that made the request.
    var user: UInt32? {
        switch kind {
        case .resizing: identify().user
        case .making(let change), .removing(let change), .renaming(let change, _): change.caller.user
        }
    }

    /// The directory of the request. The kernel asks for the directory's attributes during the retry.
    var directory: Node? {
        switch kind {
        case .resizing(_, let directory): directory
        case .making(let change), .removing(let change), .renaming(let change, _): change.directory
        }
    }

    /// The name that the request removes or renames; nil if the request does neither.
    var vacated: NameChange? {
        switch kind {
        case .resizing, .making: nil
        case .removing(let change), .renaming(let change, _): change
        }
    }

    /// Whether the request's claim ends as soon as it is decided, so that the retry makes a claim of its own.
    ///
    /// In a package, requests for different names claim the same item. If the claim was held for the retry, another
    /// request might come first and wait for it. The kernel holds a lock for that other request, and the retry waits for
    /// this lock.
    var endsWhenDecided: Bool {
        if case .making = kind { return true }
        return isInPackage
    }

    /// Returns the save that takes a node's name away by this request, if the request is about the node's document.
    func save(of node: Node) -> SaveAssessment? { request.first.item == node.item ? save : nil }

    /// Returns whether a request of this kind may be the retry of this request. Both requests are from the same thread.
    ///
    /// The path of a truncation leads to another file if the document was saved or replaced meanwhile. The kernel has
    /// used its only retry then. So the second request counts as the retry, whatever file it is for.
    func mayBeRetried(as kind: Kind) -> Bool {
        if case .resizing = kind, case .resizing = self.kind { return true }
        return self.kind.isSame(as: kind)
    }

    /// Returns whether both requests are about the same documents. The documents' names may have been exchanged
    /// meanwhile.
    func hasSameItems(as other: ClaimedRequest) -> Bool {
        request.first.item == other.request.first.item
            && request.rest.map(\.item) == other.request.rest.map(\.item)
    }
}

// Two threads may both try to make the claim: the thread that handles the request, and the timers' thread after a delay.
extension ClaimedRequest {
    /// Returns whether the caller is to make the claim now. Returns true only to the first caller.
    func beginClaiming() -> Bool {
        state.withLock { state in
            guard case .unclaimed = state.claiming, !state.isOver else { return false }
            state.claiming = .waiting
            return true
        }
    }

    /// Marks that the kernel will not retry the request. A thread that makes the claim afterwards ends it.
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

    /// Calls `outcome` exactly once with the decision about the claim: at once if the claim is decided, otherwise on the
    /// thread that decides it.
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
