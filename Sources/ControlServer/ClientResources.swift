// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import CoordinationEngine
import LinuxSystem
import Synchronization

/// The presenters and claims that one connection has in the engine.
///
/// Most methods can block, and run on the work queue in the connection's lane. The jobs of a lane run in order, so ``close()``
/// runs after all jobs that the connection has begun. The comments of the other methods say where they run.
final class ClientResources: Sendable {
    struct RegisteredPresenter: Sendable {
        let presenter: PresenterID
        let document: any TrackedDocument
        /// The path of the document that is sent to the client.
        let path: [UInt8]
        /// The kinds of messages that the presenter will be sent.
        let messages: PresenterMessages
        let isPackage: Bool
    }

    private struct State {
        var party: Party?
        var isClosed = false
        var presenters: Set<PresenterID> = []
        var accesses: [ClaimID: StartedAccess] = [:]
        var runs: [RunID] = []
    }

    private struct StartedAccess {
        let plan: AccessPlan
        let party: Party
        /// The items of this access of which the client has already preserved a version.
        var preservedItems: Set<ItemID> = []
    }

    /// An access that a client has asked for. It contains the engine's ids in place of the client's names for purposes,
    /// accesses and questions.
    struct AccessRequest: Sendable {
        let nature: Coordination.ClaimRequest.Nature
        let intents: [IntentForm]
        let purpose: Purpose
        let within: [ClaimID]
        let answering: QuestionID?
        let onBehalfOf: ProcessForm?
    }

    /// An access before its claim is made. Its documents and its party were found already.
    struct PreparedAccess: Sendable {
        fileprivate let accessRequest: AccessRequest
        fileprivate let plan: AccessPlan
        fileprivate let party: Party
    }

    private let services: SharedServices
    private let peer: Peer
    private let state = Mutex(State())
    /// Whether the connection has ended. Its queued requests are then skipped, except requests that change what other programs
    /// see.
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
            // The engine needs the guest's user, because it adds up how long each guest delays other users.
            party.user = peer.user
            messages = guest.permitted(messages, with: try guest.checkedToLook(at: parameters.path))
        }
        let document = try services.documents.find(parameters.path)
        // The document can have a second name. If the guest has no right to see that name, the guest gets the path of its
        // request.
        let path = services.guest(peer)?.name(of: document, lookedFor: parameters.path) ?? document.path
        let presenter = services.engine.present(
            document, by: party, implementing: messages, in: mailbox, guest: share)
        services.documents.didRegisterPresenter(document, by: party)
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

    /// Whether ``begin(_:_:watching:tell:)`` will not block. The access must have a single item that is found without waiting,
    /// and the party of the client must already have been found in `/proc`.
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

    /// Begins an access. This can block.
    ///
    /// If the claim need not wait, returns the plan. Otherwise `outcome` is called later with the decision, on any thread.
    func begin(
        _ claim: ClaimID, _ accessRequest: AccessRequest, watching process: ProcessWatch.WatchedProcess,
        tell outcome: @escaping @Sendable (Engine.Decision, AccessPlan) -> Void
    ) throws(ProtocolFailure) -> AccessPlan? {
        try take(claim, try prepare(claim, accessRequest, watching: process), tell: outcome)
    }

    /// Finds the documents of an access and the party that makes the claim. This can block.
    ///
    /// After this, ``close()`` releases the documents.
    func prepare(
        _ claim: ClaimID, _ accessRequest: AccessRequest, watching process: ProcessWatch.WatchedProcess
    ) throws(ProtocolFailure) -> PreparedAccess {
        let own = try self.party(process)
        var party = own
        // The client and the process in `onBehalfOf` work on the file together. They are partners, so neither of them waits for
        // this access.
        if let other = accessRequest.onBehalfOf {
            party = try self.party(of: other)
            party.partner = own
        }
        party.purpose = accessRequest.purpose
        let plan = try AccessPlan(accessRequest.intents, for: services.guest(peer), in: services)
        // A guest must not prepare a directory: the presenters of all files in the directory would be sent questions. The guest
        // possibly has no right to see some of these files.
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

    /// Makes the claim of a prepared access. If the connection was closed after the preparation, withdraws the claim.
    func take(
        _ claim: ClaimID, _ prepared: PreparedAccess,
        tell outcome: @escaping @Sendable (Engine.Decision, AccessPlan) -> Void
    ) throws(ProtocolFailure) -> AccessPlan? {
        let (accessRequest, plan, party) = (prepared.accessRequest, prepared.plan, prepared.party)
        // A guest without the right to write gets a claim like the claim of an unaware program. In contention, this
        // claim is suspended like the claim of a reader that has stopped reading. So writers wait for it only a short
        // time.
        let nature = plan.isReadOnlyGuest && accessRequest.nature == .aware ? .handle : accessRequest.nature
        var request = Coordination.ClaimRequest(claim, nature, plan.parts[0], Array(plan.parts.dropFirst()))
        request.within = accessRequest.within
        request.answering = accessRequest.answering
        let claimant = AwareClaimant(plan.parts.map(\.access), to: plan.claimedDocuments, by: party)
        let admission = services.engine.claim(request, by: claimant)
        // The engine normally asks for the party of a claim only when the claim meets another claim. Here the engine
        // gets the party immediately, because it compares changes during this access with the party.
        if nature != .handle { services.engine.identify(claim, as: party) }
        // If `close()` ran before the claim existed, it could not withdraw the claim. So the claim is withdrawn here.
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

    /// Returns the paths that a guest's documents have now. If the guest has no right to access a document at its path, ends
    /// the access and throws.
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
                // A read by a user without the right to write is planned differently: its claim can be suspended for writers.
                // If the user has lost the right to write since the planning, the plan is not valid any more.
                let isPlanned = intent.access.isWrite || plan.isReadOnlyGuest || rights.contains(.write)
                guard !rights.isEmpty, isPlanned else {
                    throw .denied(
                        "'\(intent.path.path.excerpt)' was replaced, and you may not access the present file so"
                    )
                }
                return path
            }
        } catch {
            finish(end(claim), of: claim)
            throw error
        }
    }

    /// Compares the documents of a granted access with the generations of the request (`ifGeneration`). If one differs, ends the
    /// access and throws. No other program can write the documents meanwhile, because the access is held.
    func checkGenerations(
        _ claim: ClaimID, _ plan: AccessPlan, _ intents: [IntentForm]
    ) throws(ProtocolFailure) {
        do throws(ProtocolFailure) {
            for (document, intent) in zip(plan.documents, intents) {
                guard let expected = intent.ifGeneration else { continue }
                try services.check(document.document, is: expected, intent.path, for: peer)
            }
        } catch {
            finish(end(claim), of: claim)
            throw error
        }
    }

    /// Ends a claim without blocking. The caller must then call ``finish(_:of:)``, which can block.
    func end(_ claim: ClaimID) -> Engine.ClaimTeardown { services.engine.endWithoutBlocking(claim) }

    func finish(_ ending: borrowing Engine.ClaimTeardown, of claim: ClaimID) {
        services.engine.finish(ending)
        release(claim)
    }

    func withdraw(_ claim: ClaimID) {
        services.engine.withdraw(claim)
        release(claim)
    }

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
            // The guest possibly has no right to see the file of the presenter that refused. In this case the failure contains
            // no name.
            if services.guest(peer) != nil, !Set(refusers).isSubset(of: shown) {
                return .refused(by: [], "", nil)
            }
            return .refused(
                by: refusers.compactMap { services.engine.actor(behind: $0) }, refusals.first?.words ?? "",
                refusals.first?.origin)
        }
    }

    /// Removes the details from a failure that is sent to a guest, because they can contain names of files that the guest may
    /// not see.
    private func redacted(_ failure: ProtocolFailure) -> ProtocolFailure {
        guard services.guest(peer) != nil, let end = failure.message.firstIndex(of: ":") else {
            return failure
        }
        var short = failure
        short.message = String(failure.message[..<end])
        return short
    }

    /// Allows a client to preserve a file once within each access that writes the file; throws at the second attempt.
    func reservePreservation(of path: PathForm, within claims: [ClaimID]) throws(ProtocolFailure) {
        let plans = state.withLock { state in
            claims.compactMap { id in state.accesses[id].map { (id, $0.plan) } }
        }
        let writing = plans.compactMap { id, plan in
            plan.writtenDocument(at: path.bytes ?? []).map { (id, $0.item) }
        }
        guard !writing.isEmpty else {
            throw .denied("you hold no access that writes '\(path.path.excerpt)': begin such an access first")
        }
        let isTaken = state.withLock { state in
            writing.contains { id, item in state.accesses[id]?.preservedItems.insert(item).inserted ?? false }
        }
        guard isTaken else {
            throw .denied(
                "'\(path.path.excerpt)' was already preserved within this access: begin another access first")
        }
    }

    /// Records that the connection has ended. ``close()`` runs after this.
    func noteDisconnection() { isDisconnected.store(true, ordering: .relaxed) }

    /// Throws if the connection has ended, so that a queued request is skipped.
    func checkConnected() throws(ProtocolFailure) {
        if isDisconnected.load(ordering: .relaxed) { throw .cancelled }
    }

    /// Removes all presenters of the connection and withdraws all its claims.
    func close() {
        let (presenters, accesses, runs) = state.withLock { state in
            defer { (state.isClosed, state.presenters, state.accesses, state.runs) = (true, [], [:], []) }
            return (state.presenters, state.accesses, state.runs)
        }
        for run in runs { services.engine.endRun(run) }
        services.engine.remove(presenters.sorted())
        for presenter in presenters { services.refusals.forget(presenter) }
        for (claim, startedAccess) in accesses.sorted(by: { $0.key < $1.key }) {
            services.engine.withdraw(claim)
            startedAccess.plan.release()
        }
    }

    /// Returns the party of the client. The party is read from `/proc` only once, while the client's process still runs. After
    /// the end of that process, another process can get its process id.
    private func party(_ process: ProcessWatch.WatchedProcess) throws(ProtocolFailure) -> Party {
        if let party = state.withLock({ $0.party }) { return party }
        let party = services.documents.party(ofProcess: peer.pid)
        guard !process.hasEnded else { throw .peerIsGone }
        state.withLock { $0.party = party }
        return party
    }

    /// Adds a run of the client. The run begins when its leases conflict with those of no earlier run.
    func beginRun(
        _ parameters: RunBeginParameters, token: String, watching process: ProcessWatch.WatchedProcess,
        begin: @escaping @Sendable (RunID) -> Void,
        suspended: @escaping @Sendable (UInt64, LeaseSuspension) -> Void
    ) throws(ProtocolFailure) -> RunID {
        guard let starter = try party(process).process, ProcessInspection.sharesPIDNamespace(peer.pid) else {
            throw .denied("your process numbers mean nothing here: you are in another pid namespace")
        }
        let request = RunRequest(
            name: parameters.name, starter: starter, user: peer.user, leases: try parameters.leases(),
            isUncoordinated: parameters.uncoordinated ?? false)
        let run = services.engine.addRun(request, token: token, begin: begin, suspended: suspended)
        guard let run else {
            throw .tooMany("this mount has \(RunRegistry.mostRuns) runs; wait for the end of one")
        }
        let isClosed = state.withLock { state in
            if !state.isClosed { state.runs.append(run) }
            return state.isClosed
        }
        if isClosed {
            services.engine.endRun(run)
            throw .cancelled
        }
        return run
    }

    func endRun(_ number: UInt64) {
        let run = state.withLock { state in
            state.runs.firstIndex { $0.number == number }.map { state.runs.remove(at: $0) }
        }
        if let run { services.engine.endRun(run) }
    }

    private func release(_ claim: ClaimID) {
        state.withLock { $0.accesses.removeValue(forKey: claim) }?.plan.release()
    }
}

// The parties for which a client acts, and the moves that a client announces.
extension ClientResources {
    /// Returns the party of another process, for which the client acts or which saves for the client.
    ///
    /// The other process must belong to the client's user, unless the client is root. The client must be in the pid namespace
    /// of the daemon, because otherwise its process ids have another meaning.
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

    /// Called when a client announces that it will move a document (`access/willMove`), or that it has moved a document
    /// (`access/didMove`).
    func announce(_ move: MoveParameters, isDone: Bool) throws(ProtocolFailure) {
        let (claim, path, newPath) = (
            ClaimID(move.access), move.path.bytes ?? [], move.newPath.bytes ?? []
        )
        // The client sends the path that the document had before the move. If the rename was made through the mount, the
        // document already has its new path.
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
    /// Finds the document at a path of a client's message. The form of the path was checked when the message was decoded.
    func find(_ path: PathForm) throws(ProtocolFailure) -> any TrackedDocument {
        do throws(LookupFailure) {
            return try find(path.bytes ?? [])
        } catch {
            throw ProtocolFailure(error, path)
        }
    }
}
