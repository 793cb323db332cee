// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import CoordinationEngine
import NIOCore

/// The accesses of one connection, from their beginning to their end. On the event loop only.
final class ConnectedAccesses {
    private enum Standing {
        /// The request is answered when it is granted or refused.
        case waiting(MessageID, since: Instant)
        /// Answered as cancelled; what is decided meanwhile does not matter.
        case cancelled
        case held
    }

    private unowned let connection: ClientConnection
    private let service: Service
    private var accesses: [ClaimID: Standing] = [:]

    init(of connection: ClientConnection, in service: Service) {
        self.connection = connection
        self.service = service
    }

    func begin(_ parameters: AccessBeginParameters, as presenter: Purpose?, answering id: MessageID) {
        guard accesses.count < ProtocolLimits.accesses else {
            return connection.answer(
                id, .tooMany("a connection has at most \(ProtocolLimits.accesses) accesses; end one first"))
        }
        let claim = service.engine.makeClaimID()
        let purpose: Purpose =
            switch parameters.identity {
            case .purpose(let text): Purpose("named:\(text)")
            case .presenter, nil: presenter ?? Purpose("access:\(claim.rawValue)")
            }
        accesses[claim] = .waiting(id, since: Engine.now)
        connection.begin(id)
        let settle = makeOutcome(of: claim, parameters.intents)
        connection.atDesk { holdings, process throws(Failure) in
            try holdings.begin(
                claim, parameters.intents, as: purpose, watching: process, tell: settle)
        } then: { result in
            guard case .failure(let failure) = result else { return }
            self.finish(claim, .failure(failure))
        }
    }

    private func makeOutcome(
        of claim: ClaimID, _ intents: [IntentForm]
    ) -> @Sendable (Engine.Decision, [any TrackedDocument]) -> Void {
        let accesses = NIOLoopBound(self, eventLoop: connection.loop)
        return { [door = connection.door] decision, documents in
            door.run { accesses.value.settle(claim, decision, documents, intents) }
        }
    }

    private func settle(
        _ claim: ClaimID, _ decision: Engine.Decision, _ documents: [any TrackedDocument],
        _ intents: [IntentForm]
    ) {
        guard case .waiting(let id, let since) = accesses[claim] else { return }
        switch decision {
        case .granted:
            accesses[claim] = .held
            let now = zip(documents, intents).map { IntentForm($0.path, $1.access) }
            let result = AccessBeginResult(access: claim.rawValue, intents: now)
            connection.finish(id, .success(.beginAccess(result)))
        case .refused(let refusal, let explanation):
            connection.atDesk { holdings, _ throws(Failure) in
                throw holdings.explain(refusal, of: claim, explanation, since: since)
            } then: { (result: Result<Never, Failure>) in
                guard case .failure(let failure) = result else { return }
                self.finish(claim, .failure(failure))
            }
        }
    }

    /// Answers an `access/begin` that came to nothing.
    private func finish(_ claim: ClaimID, _ result: Result<Response, Failure>) {
        guard case .waiting(let id, _) = accesses.removeValue(forKey: claim) else { return }
        connection.finish(id, result)
    }

    /// Answers the request that waits under an id, and takes the claim back.
    ///
    /// A grant may be on its way: it is taken back as well.
    func cancel(_ id: MessageID) {
        let found = accesses.first { _, standing in
            if case .waiting(id, _) = standing { true } else { false }
        }
        guard let claim = found?.key else { return }
        accesses[claim] = .cancelled
        connection.finish(id, .failure(.cancelled))
        connection.atDesk { holdings, _ throws(Failure) in
            holdings.withdraw(claim)
        } then: { _ in
            self.accesses[claim] = nil
        }
    }

    func end(_ access: UInt64, answering id: MessageID) {
        let claim = ClaimID(access)
        guard case .held = accesses[claim] else {
            return connection.answer(id, .notFound("you hold no access \(access)"))
        }
        accesses[claim] = nil
        connection.begin(id)
        connection.atDesk { holdings, _ throws(Failure) in
            holdings.end(claim)
        } then: { result in
            self.connection.finish(id, result.map { .done(EmptyResult()) })
        }
    }

    /// Nothing is answered any more; what is held is given back by the connection's holdings.
    func close() { accesses = [:] }
}
