// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import CoordinationEngine
import LinuxSystem
import Synchronization

/// What one connection has registered, holds and waits for in the engine.
///
/// Everything here may block and belongs on the service's desk, where one thing happens after the other: what
/// ends a connection comes after all that the connection began.
final class Holdings: Sendable {
    struct Registered: Sendable {
        let presenter: PresenterID
        let document: any TrackedDocument
    }

    private struct State {
        var party: Party?
        var presenters: Set<PresenterID> = []
        var accesses: [ClaimID: [any TrackedDocument]] = [:]
    }

    private let service: Service
    private let peer: Peer
    private let state = Mutex(State())

    init(of peer: Peer, in service: Service) {
        self.peer = peer
        self.service = service
    }

    func register(
        _ parameters: RegisterParameters, as purpose: Purpose, watching process: ProcessWatch.Watched,
        in mailbox: Mailbox
    ) throws(Failure) -> Registered {
        var party = try party(process)
        party.purpose = purpose
        let document = try service.documents.find(parameters.path)
        let presenter = service.engine.present(
            document, by: party, implementing: parameters.messages, in: mailbox)
        state.withLock { _ = $0.presenters.insert(presenter) }
        return Registered(presenter: presenter, document: document)
    }

    func remove(_ presenter: PresenterID) {
        guard state.withLock({ $0.presenters.remove(presenter) }) != nil else { return }
        service.engine.remove(presenter)
        service.refusals.forget(presenter)
    }

    /// Returns a grant if there was nobody to wait for; otherwise `outcome` is told, on any thread, once.
    func begin(
        _ claim: ClaimID, _ intents: [IntentForm], as purpose: Purpose,
        watching process: ProcessWatch.Watched,
        tell outcome: @escaping @Sendable (Engine.Decision, [any TrackedDocument]) -> Void
    ) throws(Failure) {
        var party = try party(process)
        party.purpose = purpose
        let documents = try find(intents)
        let parts = zip(documents, intents).map {
            Coordination.Request.Part($0.item, $1.access, at: $0.place)
        }
        guard Set(parts.map(\.item)).count == parts.count else {
            for document in documents { document.release() }
            throw .invalidParameters("the two intents name one item; an access has each item once")
        }
        state.withLock { $0.accesses[claim] = documents }
        let request = Coordination.Request(claim, .aware, parts[0], Array(parts.dropFirst()))
        let claimant = AwareClaimant(parts.map(\.access), to: documents, by: party)
        let decision = service.engine.claim(request, by: claimant)
        for (document, part) in zip(documents, parts) {
            service.engine.follow(document, claimedAs: part.item)
        }
        switch decision {
        case .granted(let grant): outcome(.granted(grant), documents)
        case .waiting: service.engine.whenSettled(claim) { outcome($0, documents) }
        }
    }

    func end(_ claim: ClaimID) {
        service.engine.end(claim)
        release(claim)
    }

    func withdraw(_ claim: ClaimID) {
        service.engine.withdraw(claim)
        release(claim)
    }

    /// Why an access was refused; it is over then.
    func explain(
        _ refusal: Refusal, of claim: ClaimID, _ explanation: Explanation, since moment: Instant
    ) -> Failure {
        defer { release(claim) }
        switch refusal {
        case .withdrawn: return .cancelled
        case .busy: return .timedOut(explanation)
        case .deadlock: return .deadlock(explanation)
        case .presenterFailed:
            let items = state.withLock { $0.accesses[claim] ?? [] }.map(\.item)
            let shown = items.flatMap { service.engine.census(of: $0).presenters.map(\.presenter) }
            let refusals = service.refusals.since(moment, of: explanation.refuser.map { [$0] } ?? shown)
            let refusers = explanation.refuser.map { [$0] } ?? refusals.map(\.presenter)
            return .refused(
                by: refusers.compactMap { service.engine.actor(behind: $0) }, refusals.first?.words ?? "")
        }
    }

    /// The connection is gone.
    func close() {
        let (presenters, accesses) = state.withLock { state in
            defer { (state.presenters, state.accesses) = ([], [:]) }
            return (state.presenters, state.accesses)
        }
        for presenter in presenters.sorted() {
            service.engine.remove(presenter)
            service.refusals.forget(presenter)
        }
        for (claim, documents) in accesses.sorted(by: { $0.key < $1.key }) {
            service.engine.withdraw(claim)
            for document in documents { document.release() }
        }
    }

    /// Who the client is; looked up once, and only while its number is surely its own.
    private func party(_ process: ProcessWatch.Watched) throws(Failure) -> Party {
        if let party = state.withLock({ $0.party }) { return party }
        let party = service.documents.party(ofProcess: peer.pid)
        guard !process.hasEnded else { throw .peerIsGone }
        state.withLock { $0.party = party }
        return party
    }

    private func find(_ intents: [IntentForm]) throws(Failure) -> [any TrackedDocument] {
        var found: [any TrackedDocument] = []
        for intent in intents {
            do throws(Failure) {
                found.append(try service.documents.find(intent.path))
            } catch {
                for document in found { document.release() }
                throw error
            }
        }
        return found
    }

    private func release(_ claim: ClaimID) {
        let documents = state.withLock { $0.accesses.removeValue(forKey: claim) }
        for document in documents ?? [] { document.release() }
    }
}

extension DocumentSource {
    /// The path was checked when the message was decoded.
    func find(_ path: PathForm) throws(Failure) -> any TrackedDocument {
        do throws(FindingFailure) {
            return try find(path.bytes ?? [])
        } catch {
            throw Failure(error, path)
        }
    }
}
