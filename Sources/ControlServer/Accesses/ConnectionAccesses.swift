// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import CoordinationEngine
import NIOCore
import NIOPosix

/// The accesses of one connection, from their beginning to their end. Used only on the event loop.
final class ConnectionAccesses {
    private enum ClientAccessState {
        /// The access waits. The request with this id is answered when the access is granted or refused.
        case waiting(MessageID, since: Instant)
        /// The client has cancelled the request, and the daemon has answered it. If the access is granted later, the grant is
        /// ignored.
        case cancelled
        case held
        /// The client has asked to end the access, and the access has not ended yet.
        case ending
    }

    private struct ClientAccess {
        var state: ClientAccessState
        let items: Int
    }

    private unowned let connection: ClientConnection
    private let services: SharedServices
    private var accesses: [ClaimID: ClientAccess] = [:]
    private var waiting = 0
    /// The number of ended accesses with documents that the work queue has not released yet.
    private var pendingFinishes = 0
    private static let mostUnfinished = 64

    init(of connection: ClientConnection, in services: SharedServices) {
        self.connection = connection
        self.services = services
    }

    /// Whether the client has a request for an access that waits to begin.
    var hasWaitingAccesses: Bool { waiting > 0 }

    func begin(
        _ parameters: AccessBeginParameters, _ nature: Coordination.ClaimRequest.Nature,
        answering id: MessageID
    ) {
        guard accesses.count < ProtocolLimits.accesses else {
            return connection.answer(
                id,
                .tooMany("a connection has at most \(ProtocolLimits.accesses) accesses; end an access first"))
        }
        let claim = services.engine.makeClaimID()
        let accessRequest: ClientResources.AccessRequest
        do throws(ProtocolFailure) {
            accessRequest = try makeAccessRequest(parameters, nature, of: claim)
        } catch {
            return connection.answer(id, error)
        }
        let intents = parameters.intents.count
        do throws(ProtocolFailure) {
            try reserveSlots(for: intents)
        } catch {
            return connection.answer(id, error)
        }
        accesses[claim] = ClientAccess(state: .waiting(id, since: Engine.now), items: intents)
        waiting += 1
        let handleDecision = makeDecisionHandler(of: claim, parameters.intents)
        // An access must begin after all earlier work for the client. This line begins it on the event loop only if no such
        // work is queued.
        if !connection.hasQueuedWork, connection.resources.canBeginWithoutBlocking(accessRequest) {
            let result = connection.runInline { resources, process throws(ProtocolFailure) in
                try resources.begin(claim, accessRequest, watching: process, tell: handleDecision)
            }
            return didBegin(claim, result, parameters.intents)
        }
        connection.begin(id)
        connection.onWorkQueue { resources, process throws(ProtocolFailure) in
            try resources.begin(claim, accessRequest, watching: process, tell: handleDecision)
        } then: { result in
            // While its access waits, the request is not counted among the requests that are being served.
            self.connection.finish()
            self.didBegin(claim, result, parameters.intents)
        }
    }

    /// Adds the items of an access to the guest's count for all its connections. Throws if the count exceeds the limit.
    ///
    /// The count is limited because each waiting access can cause questions to presenters, and each access takes memory until
    /// it ends.
    private func reserveSlots(for items: Int) throws(ProtocolFailure) {
        guard services.guest(connection.peer) != nil else { return }
        let user = connection.peer.user
        guard services.itemsOfGuests.take(items, of: user) else {
            throw .tooMany(
                "the accesses of a guest have at most \(ProtocolLimits.itemsOfGuest) items; end an access first"
            )
        }
        guard services.waitsOfGuests.take(items, of: user) else {
            services.itemsOfGuests.release(items, of: user)
            throw .tooMany(
                "the accesses of a guest wait for at most \(ProtocolLimits.intentsOfGuest) items at once"
            )
        }
    }

    private func releaseWaitSlots(for items: Int) {
        guard services.guest(connection.peer) != nil else { return }
        services.waitsOfGuests.release(items, of: connection.peer.user)
    }

    private func remove(_ claim: ClaimID) {
        guard let access = accesses.removeValue(forKey: claim), services.guest(connection.peer) != nil else {
            return
        }
        services.itemsOfGuests.release(access.items, of: connection.peer.user)
    }

    private func didBegin(
        _ claim: ClaimID, _ result: Result<AccessPlan?, ProtocolFailure>, _ intents: [IntentForm]
    ) {
        switch result {
        case .success(let plan?): granted(claim, plan, intents)
        case .success(nil): break
        case .failure(let failure): finish(claim, .failure(failure))
        }
    }

    /// Makes a request for the engine: replaces the purpose, the accesses and the question in the client's parameters by the
    /// engine's ids.
    private func makeAccessRequest(
        _ parameters: AccessBeginParameters, _ nature: Coordination.ClaimRequest.Nature, of claim: ClaimID
    ) throws(ProtocolFailure) -> ClientResources.AccessRequest {
        let purpose: Purpose =
            switch parameters.identity {
            case .purpose(let text): connection.peer.purpose(named: text)
            case .presenter(let presenter): try connection.presenters.purpose(of: presenter)
            case nil: Purpose("access:\(claim.rawValue)")
            }
        for access in parameters.within {
            guard case .held = accesses[ClaimID(access)]?.state else { throw .noAccess(access) }
        }
        var question: QuestionID?
        if let id = parameters.answering {
            // The request is valid even if the question was already answered or has timed out. The access then delays no
            // answer.
            question = connection.presenters.question(id)
            guard question != nil || connection.presenters.wasAsked(id) else {
                throw .notFound("you were not asked the request in 'answering'")
            }
        }
        return ClientResources.AccessRequest(
            nature: nature, intents: parameters.intents, purpose: purpose,
            within: parameters.within.map { ClaimID($0) }, answering: question,
            onBehalfOf: parameters.onBehalfOf)
    }

    private func makeDecisionHandler(
        of claim: ClaimID, _ intents: [IntentForm]
    ) -> @Sendable (Engine.Decision, AccessPlan) -> Void {
        let accesses = NIOLoopBound(self, eventLoop: connection.loop)
        return { [loopGate = connection.loopGate] decision, plan in
            loopGate.run { accesses.value.handleDecision(claim, decision, plan, intents) }
        }
    }

    private func handleDecision(
        _ claim: ClaimID, _ decision: Engine.Decision, _ plan: AccessPlan, _ intents: [IntentForm]
    ) {
        guard case .waiting(_, let since) = accesses[claim]?.state else { return }
        switch decision {
        case .granted: granted(claim, plan, intents)
        case .refused(let refusal, let explanation):
            connection.onWorkQueue { resources, _ throws(ProtocolFailure) in
                throw resources.explain(refusal, of: claim, explanation, since: since)
            } then: { (result: Result<Never, ProtocolFailure>) in
                guard case .failure(let failure) = result else { return }
                self.finish(claim, .failure(failure))
            }
        }
    }

    private func granted(_ claim: ClaimID, _ plan: AccessPlan, _ intents: [IntentForm]) {
        let guest = services.guest(connection.peer)
        guard guest != nil || intents.contains(where: { $0.ifGeneration != nil }) else {
            return grant(claim, plan.documents.map(\.path), intents)
        }
        connection.onWorkQueue { resources, _ throws(ProtocolFailure) in
            // The item can have moved while the access waited. A guest without the right to access the item at its new path
            // must not be sent that path.
            var paths = plan.documents.map(\.path)
            if let guest { paths = try resources.recheckRights(claim, plan, intents, for: guest) }
            try resources.checkGenerations(claim, plan, intents)
            return paths
        } then: { result in
            switch result {
            case .success(let paths): self.grant(claim, paths, intents)
            case .failure(let failure): self.finish(claim, .failure(failure))
            }
        }
    }

    private func grant(_ claim: ClaimID, _ paths: [[UInt8]], _ intents: [IntentForm]) {
        guard let access = accesses[claim], case .waiting(let id, _) = access.state else { return }
        accesses[claim]?.state = .held
        releaseWaitSlots(for: access.items)
        let now = zip(paths, intents).map { IntentForm($0, $1.access) }
        let result = AccessBeginResult(access: claim.rawValue, intents: now)
        tell(id, .success(.beginAccess(result)))
    }

    /// Ends a waiting access without granting it, and sends `result` as the reply to its request.
    private func finish(_ claim: ClaimID, _ result: Result<Response, ProtocolFailure>) {
        guard let access = accesses[claim] else { return }
        remove(claim)
        guard case .waiting(let id, _) = access.state else { return }
        releaseWaitSlots(for: access.items)
        tell(id, result)
    }

    private func tell(_ id: MessageID, _ result: Result<Response, ProtocolFailure>) {
        waiting -= 1
        connection.reply(id, result)
    }

    /// Sends the reply `cancelled` to the waiting request with this id, and withdraws the claim of its access.
    ///
    /// The claim is also withdrawn if the engine has just granted it and the event loop has not received the grant yet.
    func cancel(_ id: MessageID) {
        let found = accesses.first { _, access in
            if case .waiting(id, _) = access.state { true } else { false }
        }
        guard let (claim, access) = found else { return }
        accesses[claim]?.state = .cancelled
        releaseWaitSlots(for: access.items)
        tell(id, .failure(.cancelled))
        connection.onWorkQueue { resources, _ throws(ProtocolFailure) in
            resources.withdraw(claim)
        } then: { _ in
            self.remove(claim)
        }
    }

    func end(_ access: UInt64, answering id: MessageID) {
        let claim = ClaimID(access)
        guard case .held = accesses[claim]?.state else {
            return connection.answer(id, .noAccess(access))
        }
        accesses[claim]?.state = .ending
        let bound = NIOLoopBound(self, eventLoop: connection.loop)
        let isOpen = services.engine.whenClosed(claim) { [loopGate = connection.loopGate] in
            loopGate.run {
                bound.value.connection.finish()
                bound.value.end(claim, answering: id)
            }
        }
        if isOpen { connection.begin(id) } else { end(claim, answering: id) }
    }

    private func end(_ claim: ClaimID, answering id: MessageID) {
        // An access must end after all earlier work for the client. This method ends it on the event loop only if no such work
        // is queued.
        guard !connection.hasQueuedWork, pendingFinishes < Self.mostUnfinished,
            services.engine.isLightlyLoaded
        else {
            return endOnWorkQueue(claim, answering: id)
        }
        let ending = connection.resources.end(claim)
        remove(claim)
        let bound = NIOLoopBound(self, eventLoop: connection.loop)
        guard ending.isDone else {
            connection.begin(id)
            // Other programs are possibly waiting for the end of this access. Other requests of the same user can block
            // the jobs of this connection. So a job of the server ends the access.
            return services.workQueue.submit(in: services.workQueue.serverLane) {
                [resources = connection.resources, loopGate = connection.loopGate] in
                resources.finish(ending, of: claim)
                loopGate.run { bound.value.connection.finish(id, .success(.done(EmptyResult()))) }
            }
        }
        // No other program waits for the end of this access. The client gets its reply before the work queue releases the
        // documents.
        pendingFinishes += 1
        services.workQueue.submit(in: connection.lane) {
            [resources = connection.resources, loopGate = connection.loopGate] in
            resources.finish(ending, of: claim)
            loopGate.run { bound.value.pendingFinishes -= 1 }
        }
        connection.answer(id, .done(EmptyResult()))
    }

    private func endOnWorkQueue(_ claim: ClaimID, answering id: MessageID) {
        connection.begin(id)
        connection.onWorkQueue { resources, _ throws(ProtocolFailure) in
            resources.finish(resources.end(claim), of: claim)
        } then: { result in
            self.remove(claim)
            self.connection.finish(id, result.map { .done(EmptyResult()) })
        }
    }

    func move(_ parameters: MoveParameters, isDone: Bool, answering id: MessageID) {
        guard case .held = accesses[ClaimID(parameters.access)]?.state else {
            return connection.answer(id, .noAccess(parameters.access))
        }
        connection.begin(id)
        connection.onWorkQueue(inAnyCase: isDone) { resources, _ throws(ProtocolFailure) in
            try resources.announce(parameters, isDone: isDone)
        } then: { result in
            self.connection.finish(id, result.map { .done(EmptyResult()) })
        }
    }

    /// Preserves the contents of a file before the client overwrites them. Each access that writes the file may do this once
    /// (D212: versions that other users cause take at most half of the owner's room).
    func preserve(_ parameters: PreserveParameters, answering id: MessageID) {
        let held = accesses.compactMap { claim, access in
            if case .held = access.state { claim } else { nil }
        }
        connection.begin(id)
        connection.onWorkQueue { resources, _ throws(ProtocolFailure) in
            try resources.reservePreservation(of: parameters.path, within: held.sorted())
        } then: { result in
            switch result {
            case .success:
                self.connection.preserve(parameters, answering: id)
                self.connection.finish()
            case .failure(let failure): self.connection.finish(id, .failure(failure))
            }
        }
    }

    /// Forgets all accesses, and sends no further replies. ``ClientResources`` withdraws the claims.
    ///
    /// Returns a closure that subtracts the accesses' items from the guest's counts. Any thread may call the closure.
    func close() -> @Sendable () -> Void {
        defer { accesses = [:] }
        guard services.guest(connection.peer) != nil else { return {} }
        var (items, waits) = (0, 0)
        for access in accesses.values {
            items += access.items
            if case .waiting = access.state { waits += access.items }
        }
        return { [services, items, waits, user = connection.peer.user] in
            services.itemsOfGuests.release(items, of: user)
            services.waitsOfGuests.release(waits, of: user)
        }
    }
}

extension ProtocolFailure {
    fileprivate static func noAccess(_ access: UInt64) -> ProtocolFailure {
        .notFound("you hold no access \(access)")
    }
}

extension Peer {
    /// Returns the purpose for a name that a client has sent. Programs of the same user share a purpose of the same name;
    /// programs of different users do not.
    func purpose(named text: String) -> Purpose { Purpose("named:\(user):\(text)") }
}
