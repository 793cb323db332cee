// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import Foundation
import Synchronization

/// The request for all items of one call that are in the same mount.
struct MountAccessRequest: Sendable {
    let connection: MountConnection
    let intents: [IntentForm]
    let purpose: String
    /// Whether presenters are only asked. No claim is held in this case.
    let isBatch: Bool
}

/// One access, from its request until it is granted or refused.
///
///     idle ──begin──▶ waiting ──granted──▶ settled
///                      │   ▲──refused──────────▲
///                      └───┘ requested again, with the number of a deferred question
final class PendingAccess: Sendable {
    typealias GrantedAccess = (access: HeldAccess, paths: [[UInt8]])
    typealias AccessCompletion = @Sendable (Result<GrantedAccess, any Error>) -> Void

    private struct State {
        /// The id of the request for the access; nil if the daemon has replied to the request.
        var request: Int64?
        /// Called with the result. It is set to nil after the call, because it retains the caller and the accessor.
        var outcome: AccessCompletion?
        var isSettled: Bool { outcome == nil }
        /// Questions that can be answered only after the end of the access, because they wait on the queue that the access
        /// blocks.
        var deferredQuestions: [IncomingQuestion] = []
        /// Whether the request was cancelled to be sent once more with a question of `deferredQuestions`.
        var isRestarting = false
        /// The presenters that have had a question in `deferredQuestions` so far.
        var deferredPresenters: Set<UInt64> = []
    }

    private let accessRequest: MountAccessRequest
    private let accessContext: AccessContext
    private let began = ContinuousClock.now
    private let state: Mutex<State>

    /// Creates an access. ``begin()`` then requests it. `outcome` is called once with the result, on any thread, and must not
    /// block.
    init(
        _ accessRequest: MountAccessRequest, within accessContext: AccessContext,
        outcome: @escaping AccessCompletion
    ) {
        self.accessRequest = accessRequest
        self.accessContext = accessContext
        state = Mutex(State(outcome: outcome))
    }

    /// Sends the request for the access. The connection must be open.
    func begin() {
        let (isSettled, deferredQuestions) = state.withLock { ($0.isSettled, $0.deferredQuestions) }
        if isSettled { return }
        let question = deferredQuestions.last { $0.isOpen } ?? accessContext.question
        var parameters = AccessBeginParameters(accessRequest.intents, as: .purpose(accessRequest.purpose))
        parameters.within = accessContext.accesses(on: accessRequest.connection)
        if let question, question.connection === accessRequest.connection, question.isOpen {
            parameters.answering = question.id
        }
        let request: ControlProtocol.ClientRequest =
            accessRequest.isBatch ? .prepareAccess(parameters) : .beginAccess(parameters)
        let id = accessRequest.connection.send(request) { self.receive($0) }
        // The request is cancelled if the access was cancelled or a question was deferred while the request was being sent.
        let isUnwanted = state.withLock { state in
            guard !state.isSettled else { return true }
            // The reply can have arrived already, and the request can have been sent again with a higher id. That higher id
            // must stay.
            if id > state.request ?? 0 { state.request = id }
            if state.deferredQuestions.count > deferredQuestions.count { state.isRestarting = true }
            return state.isRestarting
        }
        if isUnwanted { accessRequest.connection.tell(.cancel(.number(id))) }
    }

    /// Stops waiting for the access. Does nothing if the access is already granted.
    func cancel() {
        guard complete(.failure(CocoaError(.userCancelled))) else { return }
        if let request = state.withLock({ $0.request }) {
            accessRequest.connection.tell(.cancel(.number(request)))
        }
    }

    /// Records that a question can be answered only after the end of this access, and sends the request again with this
    /// question.
    ///
    /// The request is sent again only once for each presenter, and later questions to that presenter are declined. Without this
    /// limit, two accesses could make each other begin again for ever.
    func deferUntilEnd(_ question: IncomingQuestion) {
        guard question.connection === accessRequest.connection else { return }
        let (isTooLate, request): (Bool, Int64?) = state.withLock { state in
            guard !state.isSettled else { return (false, nil) }
            guard state.deferredPresenters.insert(question.presenter).inserted else { return (true, nil) }
            state.deferredQuestions.append(question)
            guard let request = state.request, !state.isRestarting else { return (false, nil) }
            state.isRestarting = true
            return (false, request)
        }
        if isTooLate { question.declineForBlockedQueue() }
        if let request { accessRequest.connection.tell(.cancel(.number(request))) }
    }

    private func receive(_ reply: Result<[UInt8], FileCoordinationError>) {
        do {
            switch try ResponseMessage<AccessBeginResult>(decoding: reply.get()).outcome {
            case .success(let result): granted(result)
            case .failure(let failure): refused(failure)
            }
        } catch {
            complete(.failure(error))
        }
    }

    private func granted(_ result: AccessBeginResult) {
        let access = HeldAccess(
            result.access, on: accessRequest.connection, purpose: accessRequest.purpose)
        let paths = zip(result.intents, accessRequest.intents).map { $0.path.bytes ?? $1.path.bytes ?? [] }
        // The access was cancelled before the grant arrived, so the granted access is ended.
        if !complete(.success((access, paths))) { access.end() }
    }

    private func refused(_ failure: ProtocolFailure) {
        let (isAgain, deferredQuestions) = state.withLock { state -> (Bool, [IncomingQuestion]) in
            if state.isSettled { return (false, []) }
            if state.isRestarting, failure.code == ProtocolFailure.cancelled.code {
                state.isRestarting = false
                state.request = nil
                return (true, [])
            }
            // In this deadlock, the access waits for answers to the deferred questions, which can be answered only after the
            // access. So the questions are declined, and the access is requested again.
            guard !state.deferredQuestions.isEmpty,
                failure.code == ProtocolFailure.deadlock("", among: []).code
            else {
                return (false, [])
            }
            defer { (state.deferredQuestions, state.request, state.isRestarting) = ([], nil, false) }
            return (true, state.deferredQuestions.filter(\.isOpen))
        }
        for question in deferredQuestions { question.declineForBlockedQueue() }
        if isAgain { return begin() }
        complete(.failure(Self.error(failure, waited: ContinuousClock.now - began)))
    }

    /// Calls `outcome` with the result. Returns false if `outcome` was already called.
    @discardableResult
    private func complete(_ result: Result<GrantedAccess, any Error>) -> Bool {
        let outcome = state.withLock { state in
            defer { (state.outcome, state.deferredQuestions) = (nil, []) }
            return state.outcome
        }
        outcome?(result)
        return outcome != nil
    }

    /// Converts a failure of the daemon to the error that the caller gets. If a presenter's own error is the reason, the result
    /// has the domain and code of that error.
    private static func error(_ failure: ProtocolFailure, waited: Duration) -> any Error {
        if failure.code == ProtocolFailure.cancelled.code { return CocoaError(.userCancelled) }
        guard failure.code == ProtocolFailure.refused("", by: []).code, let origin = failure.data?.origin
        else {
            return FileCoordinationError(failure, waited: waited)
        }
        return NSError(
            domain: origin.domain, code: origin.code,
            userInfo: [NSLocalizedDescriptionKey: origin.message ?? failure.message])
    }
}

/// A granted access, until its end.
final class HeldAccess: Sendable {
    let number: UInt64
    let connection: MountConnection
    let purpose: String
    private let generation: UInt64
    private let held = Mutex(true)

    init(_ number: UInt64, on connection: MountConnection, purpose: String) {
        self.number = number
        self.connection = connection
        self.purpose = purpose
        generation = connection.generation
    }

    /// Ends the access if it was not ended before, for example because the operation with the accessor was cancelled.
    deinit { end() }

    /// Whether the access is still held. It is not held after its end, or after the loss of its connection.
    var isHeld: Bool { held.withLock { $0 } && connection.isCurrent(generation) }

    /// Ends the access. The daemon handles this end before requests that are sent later on this connection.
    func end() {
        let isFirst = held.withLock { held in
            defer { held = false }
            return held
        }
        guard isFirst, connection.isCurrent(generation) else { return }
        connection.send(.endAccess(AccessEndParameters(access: number))) { _ in }
    }
}
