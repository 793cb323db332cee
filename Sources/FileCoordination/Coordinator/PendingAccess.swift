// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import Foundation
import Synchronization

/// The request for all items of a call in one mount.
struct MountAccessRequest: Sendable {
    let connection: MountConnection
    let intents: [IntentForm]
    let purpose: String
    /// True if presenters are only asked, and no claim is held.
    let isBatch: Bool
}

/// One access from its request until it is granted or refused.
///
///     idle ──begin──▶ waiting ──granted──▶ settled
///                      │   ▲──refused──────────▲
///                      └───┘ begun anew: a request must be answered first
final class PendingAccess: Sendable {
    typealias GrantedAccess = (access: HeldAccess, paths: [[UInt8]])
    typealias AccessCompletion = @Sendable (Result<GrantedAccess, any Error>) -> Void

    private struct State {
        /// The id of the request that is not answered yet.
        var request: Int64?
        /// Nil after it was called, since it retains the caller and its work.
        var outcome: AccessCompletion?
        var isSettled: Bool { outcome == nil }
        /// Questions that cannot be answered before the access has ended, because they wait on the same queue.
        var deferredQuestions: [IncomingQuestion] = []
        /// The request was cancelled, to be sent again with `deferredQuestions`.
        var isRestarting = false
        /// Presenters with a question that was ever in `deferredQuestions`.
        var deferredPresenters: Set<UInt64> = []
    }

    private let accessRequest: MountAccessRequest
    private let accessContext: AccessContext
    private let began = ContinuousClock.now
    private let state: Mutex<State>

    /// Creates an access. `outcome` is called once, on any thread, and must not block.
    init(
        _ accessRequest: MountAccessRequest, within accessContext: AccessContext,
        outcome: @escaping AccessCompletion
    ) {
        self.accessRequest = accessRequest
        self.accessContext = accessContext
        state = Mutex(State(outcome: outcome))
    }

    /// Sends the request; the connection must exist.
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
        // Meanwhile the access may have been settled, or a further question deferred.
        let isUnwanted = state.withLock { state in
            guard !state.isSettled else { return true }
            // The reply may have come already, and the request been sent again with a higher id.
            if id > state.request ?? 0 { state.request = id }
            if state.deferredQuestions.count > deferredQuestions.count { state.isRestarting = true }
            return state.isRestarting
        }
        if isUnwanted { accessRequest.connection.tell(.cancel(.number(id))) }
    }

    /// Stops waiting, at once; a granted access is not changed.
    func cancel() {
        guard complete(.failure(CocoaError(.userCancelled))) else { return }
        if let request = state.withLock({ $0.request }) {
            accessRequest.connection.tell(.cancel(.number(request)))
        }
    }

    /// Records that a question cannot be answered before this access ends.
    ///
    /// The request is sent again once for each presenter. Without this limit, two accesses that restart because of each
    /// other would never end. Later questions of that presenter are declined.
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
        let access = HeldAccess(result.access, on: accessRequest.connection)
        let paths = zip(result.intents, accessRequest.intents).map { $0.path.bytes ?? $1.path.bytes ?? [] }
        // The access may have been cancelled meanwhile.
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
            // The daemon reports a deadlock: the access and the deferred questions wait for each other.
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

    /// Calls the outcome; returns false if it was called before.
    @discardableResult
    private func complete(_ result: Result<GrantedAccess, any Error>) -> Bool {
        let outcome = state.withLock { state in
            defer { (state.outcome, state.deferredQuestions) = (nil, []) }
            return state.outcome
        }
        outcome?(result)
        return outcome != nil
    }

    /// Converts a failure for the caller, with the domain and code of a presenter's own error.
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

/// An access from its grant to its end.
final class HeldAccess: Sendable {
    let number: UInt64
    let connection: MountConnection
    private let generation: UInt64
    private let held = Mutex(true)

    init(_ number: UInt64, on connection: MountConnection) {
        self.number = number
        self.connection = connection
        generation = connection.generation
    }

    /// Ends the access if the operation with the accessor was cancelled, since no other code can end it.
    deinit { end() }

    /// False after the end of the access or of its connection.
    var isHeld: Bool { held.withLock { $0 } && connection.isCurrent(generation) }

    /// Ends the access. Later requests on this connection arrive after its end.
    func end() {
        let isFirst = held.withLock { held in
            defer { held = false }
            return held
        }
        guard isFirst, connection.isCurrent(generation) else { return }
        connection.send(.endAccess(AccessEndParameters(access: number))) { _ in }
    }
}
