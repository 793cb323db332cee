// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import CoordinationEngine
import LinuxSystem
import Synchronization

/// What one connection has registered, holds and waits for in the engine.
///
/// Where nothing else is said, everything here may block and belongs on the service's desk, in the connection's lane: what ends a
/// connection comes after all that the connection began. But ``close()`` may come at any time.
final class ClientResources: Sendable {
    struct RegisteredPresenter: Sendable {
        let presenter: PresenterID
        let document: any TrackedDocument
        /// What the client is told that it is called.
        let path: [UInt8]
        /// What it is sent of what it implements.
        let messages: PresenterMessages
        let isPackage: Bool
    }

    private struct State {
        var party: Party?
        var isClosed = false
        var presenters: Set<PresenterID> = []
        var accesses: [ClaimID: StartedAccess] = [:]
    }

    private struct StartedAccess {
        let plan: AccessPlan
        let party: Party
        /// What the client had kept within it.
        var preservedItems: Set<ItemID> = []
    }

    /// An access as the connection asks for it, with the words of the client understood.
    struct AccessRequest: Sendable {
        let nature: Coordination.ClaimRequest.Nature
        let intents: [IntentForm]
        let purpose: Purpose
        let within: [ClaimID]
        let answering: QuestionID?
        let onBehalfOf: ProcessForm?
    }

    /// An access of which the engine knows nothing yet.
    struct PreparedAccess: Sendable {
        fileprivate let accessRequest: AccessRequest
        fileprivate let plan: AccessPlan
        fileprivate let party: Party
    }

    private let services: SharedServices
    private let peer: Peer
    private let state = Mutex(State())
    /// The connection has ended: what it has asked for need not be done any more, unless others depend on it.
    private let isDisconnected = Atomic<Bool>(false)

    init(of peer: Peer, in services: SharedServices) {
        self.peer = peer
        self.services = services
    }

    func register(
        _ parameters: RegisterParameters, as purpose: Purpose, watching process: ProcessWatch.WatchedProcess,
        in mailbox: Mailbox
    ) throws(ProtocolFailure) -> RegisteredPresenter {
        var party = try party(process)
        party.purpose = purpose
        if let server = parameters.serverProcess { party.partner = try self.party(of: server) }
        var messages = parameters.messages
        let share = services.guest(peer).map { _ in peer.user }
        if let guest = services.guest(peer) {
            // What others wait for it is counted by user.
            party.user = peer.user
            messages = guest.permitted(messages, with: try guest.checkedToLook(at: parameters.path))
        }
        let document = try services.documents.find(parameters.path)
        // It may be known by another name, which is not for everybody.
        let path = services.guest(peer)?.name(of: document, lookedFor: parameters.path) ?? document.path
        let presenter = services.engine.present(
            document, by: party, implementing: messages, in: mailbox, guest: share)
        services.documents.didRegisterPresenter(document)
        let isClosed = state.withLock { state in
            if !state.isClosed { state.presenters.insert(presenter) }
            return state.isClosed
        }
        if isClosed {
            services.engine.remove(presenter)
            throw .cancelled
        }
        return RegisteredPresenter(
            presenter: presenter, document: document, path: path, messages: messages,
            isPackage: services.engine.isPackage(document.item))
    }

    func remove(_ presenter: PresenterID) {
        guard state.withLock({ $0.presenters.remove(presenter) }) != nil else { return }
        services.engine.remove(presenter)
        services.refusals.forget(presenter)
    }

    /// Whether ``begin(_:_:watching:tell:)`` would wait for no disk, no network and no other process: one item, and a
    /// client that is known already.
    func canBeginWithoutBlocking(_ accessRequest: AccessRequest) -> Bool {
        guard accessRequest.intents.count == 1, accessRequest.onBehalfOf == nil, services.guest(peer) == nil
        else {
            return false
        }
        if case .read(let options) = accessRequest.intents[0].access, options.contains(.resolvesSymbolicLink)
        {
            return false
        }
        guard state.withLock({ $0.party != nil }), services.engine.isLightlyLoaded else { return false }
        return services.documents.canFindWithoutBlocking(accessRequest.intents[0].path.bytes ?? [])
    }

    /// Returns the plan if the access is granted at once; `outcome` is told later otherwise, on any thread.
    func begin(
        _ claim: ClaimID, _ accessRequest: AccessRequest, watching process: ProcessWatch.WatchedProcess,
        tell outcome: @escaping @Sendable (Engine.Decision, AccessPlan) -> Void
    ) throws(ProtocolFailure) -> AccessPlan? {
        try take(claim, try prepare(claim, accessRequest, watching: process), tell: outcome)
    }

    /// Finds out what an access is to, and by whom. From now on ``close()`` gives it back.
    func prepare(
        _ claim: ClaimID, _ accessRequest: AccessRequest, watching process: ProcessWatch.WatchedProcess
    ) throws(ProtocolFailure) -> PreparedAccess {
        let own = try self.party(process)
        var party = own
        // Both work on the file meanwhile, so neither waits for the access.
        if let other = accessRequest.onBehalfOf {
            party = try self.party(of: other)
            party.partner = own
        }
        party.purpose = accessRequest.purpose
        let plan = try AccessPlan(accessRequest.intents, for: services.guest(peer), in: services)
        // Who shows something in a directory is asked, wherever below it, and a guest may not see all of that.
        if accessRequest.nature == .batch, services.guest(peer) != nil,
            let directory = plan.documents.first(where: { services.engine.isDirectory($0.item) })
        {
            plan.release()
            throw .denied(
                "'\(PathForm(directory.path).path.excerpt)' is a directory: prepare the files you want")
        }
        let isClosed = state.withLock { state in
            if !state.isClosed { state.accesses[claim] = StartedAccess(plan: plan, party: party) }
            return state.isClosed
        }
        if isClosed {
            plan.release()
            throw .cancelled
        }
        return PreparedAccess(accessRequest: accessRequest, plan: plan, party: party)
    }

    /// Claims what was prepared, unless the connection was closed since then.
    func take(
        _ claim: ClaimID, _ prepared: PreparedAccess,
        tell outcome: @escaping @Sendable (Engine.Decision, AccessPlan) -> Void
    ) throws(ProtocolFailure) -> AccessPlan? {
        let (accessRequest, plan, party) = (prepared.accessRequest, prepared.plan, prepared.party)
        // As a program that knows nothing of Truce, which lets writers pass when it stands still.
        let nature = plan.isReadOnlyGuest && accessRequest.nature == .aware ? .handle : accessRequest.nature
        var request = Coordination.ClaimRequest(claim, nature, plan.parts[0], Array(plan.parts.dropFirst()))
        request.within = accessRequest.within
        request.answering = accessRequest.answering
        let claimant = AwareClaimant(plan.parts.map(\.access), to: plan.claimedDocuments, by: party)
        let admission = services.engine.claim(request, by: claimant)
        // Unasked: as long as it meets nobody the engine does not ask, and yet things are done within it.
        if nature != .handle { services.engine.identify(claim, as: party) }
        // Closed meanwhile, before there was a claim to take back.
        if state.withLock({ $0.isClosed }) {
            services.engine.withdraw(claim)
            throw .cancelled
        }
        switch admission {
        case .granted: return plan
        case .waiting:
            services.engine.onDecision(claim) { outcome($0, plan) }
            return nil
        }
    }

    /// Where a guest's access has its documents now; it is over if the guest may not do that there.
    func recheckRights(
        _ claim: ClaimID, _ plan: AccessPlan, _ intents: [IntentForm], for guest: Guest
    ) throws(ProtocolFailure) -> [[UInt8]] {
        do throws(ProtocolFailure) {
            return try zip(plan.documents, intents).map { (document, intent) throws(ProtocolFailure) in
                let path = document.path
                var rights: Rights = []
                do throws(ProtocolFailure) {
                    rights = try guest.checked(intent.access, at: PathForm(path))
                } catch {
                    rights = []
                }
                // Who may only read it gives way to writers, which this access does not.
                let isPlanned = intent.access.isWrite || plan.isReadOnlyGuest || rights.contains(.write)
                guard !rights.isEmpty, isPlanned else {
                    throw .denied("'\(intent.path.path.excerpt)' is not what it was, and not yours to use so")
                }
                return path
            }
        } catch {
            finish(end(claim), of: claim)
            throw error
        }
    }

    /// Never blocks; ``finish(_:of:)`` follows, which may.
    func end(_ claim: ClaimID) -> Engine.ClaimTeardown { services.engine.endWithoutBlocking(claim) }

    func finish(_ ending: borrowing Engine.ClaimTeardown, of claim: ClaimID) {
        services.engine.finish(ending)
        release(claim)
    }

    func withdraw(_ claim: ClaimID) {
        services.engine.withdraw(claim)
        release(claim)
    }

    /// Why an access was refused; it is over then.
    func explain(
        _ refusal: Refusal, of claim: ClaimID, _ explanation: Explanation, since moment: Instant
    ) -> ProtocolFailure {
        defer { release(claim) }
        switch refusal {
        case .withdrawn: return .cancelled
        case .busy: return redacted(.timedOut(explanation))
        case .deadlock: return redacted(.deadlock(explanation))
        case .presenterFailed:
            let items = state.withLock { $0.accesses[claim]?.plan.documents ?? [] }.map(\.item)
            let shown = items.flatMap { services.engine.snapshot(of: $0).presenters.map(\.presenter) }
            let refusals = services.refusals.since(moment, of: explanation.refuser.map { [$0] } ?? shown)
            let refusers = explanation.refuser.map { [$0] } ?? refusals.map(\.presenter)
            // Others who refuse show what a guest may not see, maybe.
            if services.guest(peer) != nil, !Set(refusers).isSubset(of: shown) {
                return .refused(by: [], "", nil)
            }
            return .refused(
                by: refusers.compactMap { services.engine.actor(behind: $0) }, refusals.first?.words ?? "",
                refusals.first?.origin)
        }
    }

    /// The whole story names files that a guest may not see.
    private func redacted(_ failure: ProtocolFailure) -> ProtocolFailure {
        guard services.guest(peer) != nil, let end = failure.message.firstIndex(of: ":") else {
            return failure
        }
        var short = failure
        short.message = String(failure.message[..<end])
        return short
    }

    /// The client is to have a file kept that one of its accesses writes. It has that once in each access, or one client that may write
    /// to one file could fill the room of the file's owner.
    func reservePreservation(of path: PathForm, within claims: [ClaimID]) throws(ProtocolFailure) {
        let plans = state.withLock { state in
            claims.compactMap { id in state.accesses[id].map { (id, $0.plan) } }
        }
        let writing = plans.compactMap { id, plan in
            plan.writtenDocument(at: path.bytes ?? []).map { (id, $0.item) }
        }
        guard !writing.isEmpty else {
            throw .denied("you hold no access that writes '\(path.path.excerpt)': begin one first")
        }
        let isTaken = state.withLock { state in
            writing.contains { id, item in state.accesses[id]?.preservedItems.insert(item).inserted ?? false }
        }
        guard isTaken else {
            throw .denied("'\(path.path.excerpt)' was kept within this access: begin another one first")
        }
    }

    /// The connection has ended, and ``close()`` will come.
    func noteDisconnection() { isDisconnected.store(true, ordering: .relaxed) }

    /// Whether what the connection asks for is still to be done.
    func checkConnected() throws(ProtocolFailure) {
        if isDisconnected.load(ordering: .relaxed) { throw .cancelled }
    }

    /// The connection is gone.
    func close() {
        let (presenters, accesses) = state.withLock { state in
            defer { (state.isClosed, state.presenters, state.accesses) = (true, [], [:]) }
            return (state.presenters, state.accesses)
        }
        services.engine.remove(presenters.sorted())
        for presenter in presenters { services.refusals.forget(presenter) }
        for (claim, startedAccess) in accesses.sorted(by: { $0.key < $1.key }) {
            services.engine.withdraw(claim)
            startedAccess.plan.release()
        }
    }

    /// Who the client is; looked up once, and only while its number is surely its own.
    private func party(_ process: ProcessWatch.WatchedProcess) throws(ProtocolFailure) -> Party {
        if let party = state.withLock({ $0.party }) { return party }
        let party = services.documents.party(ofProcess: peer.pid)
        guard !process.hasEnded else { throw .peerIsGone }
        state.withLock { $0.party = party }
        return party
    }

    private func release(_ claim: ClaimID) {
        state.withLock { $0.accesses.removeValue(forKey: claim) }?.plan.release()
    }
}

// Whom a client speaks for, and what it says.
extension ClientResources {
    /// Another process, for which the client acts or that saves for it: of its own user's, and of our own process numbers.
    private func party(of form: ProcessForm) throws(ProtocolFailure) -> Party {
        let party = services.documents.party(ofProcess: form.pid)
        guard let process = party.process, form.started == nil || form.started == process.started else {
            throw .notFound("there is no process \(form.pid), or not any more")
        }
        guard peer.user == 0 || party.user == peer.user else {
            throw .denied("process \(form.pid) is not yours")
        }
        guard ProcessInspection.sharesPIDNamespace(peer.pid) else {
            throw .denied("your process numbers mean nothing here: you are in another pid namespace")
        }
        return party
    }

    /// What is about to be moved, or was.
    func announce(_ move: MoveParameters, isDone: Bool) throws(ProtocolFailure) {
        let (claim, path, newPath) = (
            ClaimID(move.access), move.path.bytes ?? [], move.newPath.bytes ?? []
        )
        // A rename that was seen has given the document its new name already.
        guard let startedAccess = state.withLock({ $0.accesses[claim] }),
            let document = startedAccess.plan.writtenDocument(at: path)
                ?? startedAccess.plan.writtenDocument(at: newPath)
        else {
            throw .invalidParameters("the access does not write '\(move.path.path.excerpt)'")
        }
        if let guest = services.guest(peer) {
            _ = try guest.checked(.write(.forMoving), at: move.path)
            _ = try guest.checked(.write(.forReplacing), at: move.newPath)
        }
        guard isDone else { return }
        do throws(MoveFailure) {
            try services.documents.announceMove(
                of: document, to: newPath, by: startedAccess.party, under: claim)
        } catch {
            throw ProtocolFailure(error, move)
        }
    }
}

extension DocumentSource {
    /// The path was checked when the message was decoded.
    func find(_ path: PathForm) throws(ProtocolFailure) -> any TrackedDocument {
        do throws(LookupFailure) {
            return try find(path.bytes ?? [])
        } catch {
            throw ProtocolFailure(error, path)
        }
    }
}
