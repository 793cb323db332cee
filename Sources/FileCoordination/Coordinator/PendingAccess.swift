// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import Foundation
import Synchronization

/// What is wanted of one mount, all at once.
struct MountAccessRequest: Sendable {
    let connection: MountConnection
    let intents: [IntentForm]
    let purpose: String
    /// It is only asked about, and nothing held.
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
        /// The id of the request that is out.
        var request: Int64?
        /// Nil once it was told: it holds on to whoever began this, and what that has to do.
        var outcome: AccessCompletion?
        var isSettled: Bool { outcome == nil }
        /// What cannot be answered before the access has ended, because it runs on the same queue.
        var deferredQuestions: [IncomingQuestion] = []
        /// The request was taken back, to be made again with what is in `deferredQuestions`.
        var isRestarting = false
        /// The presenters of which something was in `deferredQuestions`.
        var deferredPresenters: Set<UInt64> = []
    }

    private let accessRequest: MountAccessRequest
    private let accessContext: AccessContext
    private let began = ContinuousClock.now
    private let state: Mutex<State>

    /// `outcome` is told once, on any thread, and must not block.
    init(
        _ accessRequest: MountAccessRequest, within accessContext: AccessContext,
        outcome: @escaping AccessCompletion
    ) {
        self.accessRequest = accessRequest
        self.accessContext = accessContext
        state = Mutex(State(outcome: outcome))
    }

    /// The connection has to be there.
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
        // It may have been answered, cancelled, or become another's turn meanwhile.
        let isUnwanted = state.withLock { state in
            guard !state.isSettled else { return true }
            // The reply may have come already, and the access have been begun anew.
            if id > state.request ?? 0 { state.request = id }
            if state.deferredQuestions.count > deferredQuestions.count { state.isRestarting = true }
            return state.isRestarting
        }
        if isUnwanted { accessRequest.connection.tell(.cancel(.number(id))) }
    }

    /// Stops waiting, at once; nothing happens if the access was granted.
    func cancel() {
        guard complete(.failure(CocoaError(.userCancelled))) else { return }
        if let request = state.withLock({ $0.request }) {
            accessRequest.connection.tell(.cancel(.number(request)))
        }
    }

    /// A request to a presenter cannot be answered before this access ends.
    ///
    /// The access is begun anew once for each presenter: two that ask each other, each because the other has begun anew,
    /// would never come to an end. Whatever else that presenter is asked it does later.
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
        // Nobody may want it any more.
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
            // The daemon says that they cannot both be: everybody waits for everybody.
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

    /// Whether it was not settled before.
    @discardableResult
    private func complete(_ result: Result<GrantedAccess, any Error>) -> Bool {
        let outcome = state.withLock { state in
            defer { (state.outcome, state.deferredQuestions) = (nil, []) }
            return state.outcome
        }
        outcome?(result)
        return outcome != nil
    }

    /// What a caller is told, as a presenter's own error if it is one.
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

/// An access that was granted, until it ends.
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

    /// An accessor whose queue was cancelled does not run, and nobody is left who could end this.
    deinit { end() }

    /// A connection that is gone has ended it.
    var isHeld: Bool { held.withLock { $0 } && connection.isCurrent(generation) }

    /// Others go on. Whatever this connection asks for next comes after it.
    func end() {
        let isFirst = held.withLock { held in
            defer { held = false }
            return held
        }
        guard isFirst, connection.isCurrent(generation) else { return }
        connection.send(.endAccess(AccessEndParameters(access: number))) { _ in }
    }
}
