// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import Foundation
import Synchronization

/// What is wanted of one mount, all at once.
struct Wish: Sendable {
    let link: MountLink
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
    typealias Granted = (access: HeldAccess, paths: [[UInt8]])
    typealias Outcome = @Sendable (Result<Granted, any Error>) -> Void

    private struct State {
        /// The id of the request that is out.
        var request: Int64?
        /// Nil once it was told: it holds on to whoever began this, and what that has to do.
        var outcome: Outcome?
        var isSettled: Bool { outcome == nil }
        /// What cannot be answered before the access has ended, because it runs on the same queue.
        var later: [PresentedQuestion] = []
        /// The request was taken back, to be made again with what is in `later`.
        var isBegunAnew = false
        /// The presenters of which something was in `later`.
        var spared: Set<UInt64> = []
    }

    private let wish: Wish
    private let nesting: Nesting
    private let began = ContinuousClock.now
    private let state: Mutex<State>

    /// `outcome` is told once, on any thread, and must not block.
    init(_ wish: Wish, within nesting: Nesting, outcome: @escaping Outcome) {
        self.wish = wish
        self.nesting = nesting
        state = Mutex(State(outcome: outcome))
    }

    /// The connection has to be there.
    func begin() {
        let (isSettled, later) = state.withLock { ($0.isSettled, $0.later) }
        if isSettled { return }
        let question = later.last { $0.isOpen } ?? nesting.question
        var parameters = AccessBeginParameters(wish.intents, as: .purpose(wish.purpose))
        parameters.within = nesting.accesses(on: wish.link)
        if let question, question.link === wish.link, question.isOpen { parameters.answering = question.id }
        let request: ControlProtocol.Request =
            wish.isBatch ? .prepareAccess(parameters) : .beginAccess(parameters)
        let id = wish.link.send(request) { self.receive($0) }
        // It may have been answered, cancelled, or become another's turn meanwhile.
        let isUnwanted = state.withLock { state in
            guard !state.isSettled else { return true }
            // The reply may have come already, and the access have been begun anew.
            if id > state.request ?? 0 { state.request = id }
            if state.later.count > later.count { state.isBegunAnew = true }
            return state.isBegunAnew
        }
        if isUnwanted { wish.link.tell(.cancel(.number(id))) }
    }

    /// Stops waiting, at once; nothing happens if the access was granted.
    func cancel() {
        guard settle(.failure(CocoaError(.userCancelled))) else { return }
        if let request = state.withLock({ $0.request }) { wish.link.tell(.cancel(.number(request))) }
    }

    /// A request to a presenter cannot be answered before this access ends.
    ///
    /// The access is begun anew once for each presenter: two that ask each other, each because the other has begun anew,
    /// would never come to an end. Whatever else that presenter is asked it does later.
    func mustPrecede(_ question: PresentedQuestion) {
        guard question.link === wish.link else { return }
        let (isTooLate, request): (Bool, Int64?) = state.withLock { state in
            guard !state.isSettled else { return (false, nil) }
            guard state.spared.insert(question.presenter).inserted else { return (true, nil) }
            state.later.append(question)
            guard let request = state.request, !state.isBegunAnew else { return (false, nil) }
            state.isBegunAnew = true
            return (false, request)
        }
        if isTooLate { question.forgo() }
        if let request { wish.link.tell(.cancel(.number(request))) }
    }

    private func receive(_ reply: Result<[UInt8], FileCoordinationError>) {
        do {
            switch try ResponseMessage<AccessBeginResult>(decoding: reply.get()).outcome {
            case .success(let result): granted(result)
            case .failure(let failure): refused(failure)
            }
        } catch {
            settle(.failure(error))
        }
    }

    private func granted(_ result: AccessBeginResult) {
        let access = HeldAccess(result.access, on: wish.link)
        let paths = zip(result.intents, wish.intents).map { $0.path.bytes ?? $1.path.bytes ?? [] }
        // Nobody may want it any more.
        if !settle(.success((access, paths))) { access.end() }
    }

    private func refused(_ failure: Failure) {
        let (isAgain, later) = state.withLock { state -> (Bool, [PresentedQuestion]) in
            if state.isSettled { return (false, []) }
            if state.isBegunAnew, failure.code == Failure.cancelled.code {
                state.isBegunAnew = false
                state.request = nil
                return (true, [])
            }
            // The daemon says that they cannot both be: everybody waits for everybody.
            guard !state.later.isEmpty, failure.code == Failure.deadlock("", among: []).code else {
                return (false, [])
            }
            defer { (state.later, state.request, state.isBegunAnew) = ([], nil, false) }
            return (true, state.later.filter(\.isOpen))
        }
        for question in later { question.forgo() }
        if isAgain { return begin() }
        settle(.failure(Self.error(failure, waited: ContinuousClock.now - began)))
    }

    /// Whether it was not settled before.
    @discardableResult
    private func settle(_ result: Result<Granted, any Error>) -> Bool {
        let outcome = state.withLock { state in
            defer { (state.outcome, state.later) = (nil, []) }
            return state.outcome
        }
        outcome?(result)
        return outcome != nil
    }

    /// What a caller is told, as a presenter's own error if it is one.
    private static func error(_ failure: Failure, waited: Duration) -> any Error {
        if failure.code == Failure.cancelled.code { return CocoaError(.userCancelled) }
        guard failure.code == Failure.refused("", by: []).code, let origin = failure.data?.origin else {
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
    let link: MountLink
    private let generation: UInt64
    private let held = Mutex(true)

    init(_ number: UInt64, on link: MountLink) {
        self.number = number
        self.link = link
        generation = link.generation
    }

    /// An accessor whose queue was cancelled does not run, and nobody is left who could end this.
    deinit { end() }

    /// A connection that is gone has ended it.
    var isHeld: Bool { held.withLock { $0 } && link.isCurrent(generation) }

    /// Others go on. Whatever this connection asks for next comes after it.
    func end() {
        let isFirst = held.withLock { held in
            defer { held = false }
            return held
        }
        guard isFirst, link.isCurrent(generation) else { return }
        link.send(.endAccess(AccessEndParameters(access: number))) { _ in }
    }
}
