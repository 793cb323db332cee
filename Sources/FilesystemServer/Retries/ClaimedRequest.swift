// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Synchronization

/// A request for which a claim is made without a handle: it changes names, or the size of a file.
///
///     made ──claimed──▶ waiting ──decided──▶ decided
///
/// The kernel holds a lock during such a request. If the claim must wait, the daemon answers ESTALE: the kernel then
/// drops the lock, and sends the request again later. Until the request comes again, this object stores the decision
/// about its claim.
final class ClaimedRequest: Claimant, PreservationSubject {
    /// The operation that the kernel asks for. A retry asks for the same operation as the first request, and the daemon
    /// recognises it by that.
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
        /// True if the kernel will certainly not retry the request. Then no claim is needed.
        var isOver = false
        /// The closures to run when the claim is decided. The list is empty after the decision.
        var outcomes: [Engine.DecisionHandler] = []
    }

    let kind: Kind
    let request: ClaimRequest
    let thread: Int32
    /// The save that this request is a step of, because the request removes or renames a document. Nil if the request is no
    /// step of a save. Determined when the request was made.
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

    /// The directory in which the request changes a name. During the retry, the kernel asks for this directory's
    /// attributes.
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

    /// Whether the request's claim ends as soon as it is decided. The retry then makes a new claim.
    ///
    /// In a package, requests for different names claim the same item. Suppose that the claim was held until the retry.
    /// A second request could then wait for the claim, with a kernel lock that the retry needs. Both requests would
    /// wait for each other.
    var endsWhenDecided: Bool {
        if case .making = kind { return true }
        return isInPackage
    }

    /// Returns the save of which this request is a step, if the request takes a name from this node's document.
    func save(of node: Node) -> SaveAssessment? { request.first.item == node.item ? save : nil }

    /// Returns whether a request of this kind can be the retry of this request. Both requests are from the same thread.
    ///
    /// After a save, the path of a truncation leads to another file than before. The kernel has nevertheless used its
    /// only retry. So a second truncation counts as the retry, whatever file it is for.
    func mayBeRetried(as kind: Kind) -> Bool {
        if case .resizing = kind, case .resizing = self.kind { return true }
        return self.kind.isSame(as: kind)
    }

    /// Returns whether both requests are about the same documents. They are not if the documents' names were exchanged
    /// between the requests.
    func hasSameItems(as other: ClaimedRequest) -> Bool {
        request.first.item == other.request.first.item
            && request.rest.map(\.item) == other.request.rest.map(\.item)
    }
}

// Two threads may try to make the claim of a request: the thread that handles the request, and, after a delay, the
// timers' thread.
extension ClaimedRequest {
    /// Returns whether the caller must make the claim. Returns true to the first caller only.
    func beginClaiming() -> Bool {
        state.withLock { state in
            guard case .unclaimed = state.claiming, !state.isOver else { return false }
            state.claiming = .waiting
            return true
        }
    }

    /// Notes that the kernel will not retry the request. If a thread is just making the claim, that thread ends the
    /// claim.
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

    /// Calls `outcome` exactly once with the decision about the claim. If the claim is not decided yet, the thread that
    /// decides it makes the call.
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
