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
final class Holdings: Sendable {
    struct Registered: Sendable {
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
        var accesses: [ClaimID: Begun] = [:]
    }

    private struct Begun {
        let plan: AccessPlan
        let party: Party
        /// What the client had kept within it.
        var kept: Set<ItemID> = []
    }

    /// An access as the connection asks for it, with the words of the client understood.
    struct Wanted: Sendable {
        let nature: Coordination.Request.Nature
        let intents: [IntentForm]
        let purpose: Purpose
        let within: [ClaimID]
        let answering: QuestionID?
        let onBehalfOf: ProcessForm?
    }

    /// An access of which the engine knows nothing yet.
    struct Prepared: Sendable {
        fileprivate let wanted: Wanted
        fileprivate let plan: AccessPlan
        fileprivate let party: Party
    }

    private let service: Service
    private let peer: Peer
    private let state = Mutex(State())
    /// The connection has ended: what it has asked for need not be done any more, unless others depend on it.
    private let isGone = Atomic<Bool>(false)

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
        if let server = parameters.serverProcess { party.partner = try self.party(of: server) }
        var messages = parameters.messages
        let share = service.guest(peer).map { _ in peer.user }
        if let guest = service.guest(peer) {
            // What others wait for it is counted by user.
            party.user = peer.user
            messages = guest.permitted(messages, with: try guest.checkedToLook(at: parameters.path))
        }
        let document = try service.documents.find(parameters.path)
        // It may be known by another name, which is not for everybody.
        let path = service.guest(peer)?.name(of: document, lookedFor: parameters.path) ?? document.path
        let presenter = service.engine.present(
            document, by: party, implementing: messages, in: mailbox, share: share)
        service.documents.presented(document)
        let isClosed = state.withLock { state in
            if !state.isClosed { state.presenters.insert(presenter) }
            return state.isClosed
        }
        if isClosed {
            service.engine.remove(presenter)
            throw .cancelled
        }
        return Registered(
            presenter: presenter, document: document, path: path, messages: messages,
            isPackage: service.engine.isPackage(document.item))
    }

    func remove(_ presenter: PresenterID) {
        guard state.withLock({ $0.presenters.remove(presenter) }) != nil else { return }
        service.engine.remove(presenter)
        service.refusals.forget(presenter)
    }

    /// Whether ``begin(_:_:watching:tell:)`` would wait for no disk, no network and no other process: one item, and a
    /// client that is known already.
    func isAtHand(_ wanted: Wanted) -> Bool {
        guard wanted.intents.count == 1, wanted.onBehalfOf == nil, service.guest(peer) == nil else {
            return false
        }
        if case .read(let options) = wanted.intents[0].access, options.contains(.resolvesSymbolicLink) {
            return false
        }
        guard state.withLock({ $0.party != nil }), service.engine.isCalm else { return false }
        return service.documents.isAtHand(wanted.intents[0].path.bytes ?? [])
    }

    /// Returns the plan if the access is granted at once; `outcome` is told later otherwise, on any thread.
    func begin(
        _ claim: ClaimID, _ wanted: Wanted, watching process: ProcessWatch.Watched,
        tell outcome: @escaping @Sendable (Engine.Decision, AccessPlan) -> Void
    ) throws(Failure) -> AccessPlan? {
        try take(claim, try prepare(claim, wanted, watching: process), tell: outcome)
    }

    /// Finds out what an access is to, and by whom. From now on ``close()`` gives it back.
    func prepare(
        _ claim: ClaimID, _ wanted: Wanted, watching process: ProcessWatch.Watched
    ) throws(Failure) -> Prepared {
        let own = try self.party(process)
        var party = own
        // Both work on the file meanwhile, so neither waits for the access.
        if let other = wanted.onBehalfOf {
            party = try self.party(of: other)
            party.partner = own
        }
        party.purpose = wanted.purpose
        let plan = try AccessPlan(wanted.intents, for: service.guest(peer), in: service)
        // Who shows something in a directory is asked, wherever below it, and a guest may not see all of that.
        if wanted.nature == .batch, service.guest(peer) != nil,
            let directory = plan.documents.first(where: { service.engine.isDirectory($0.item) })
        {
            plan.release()
            throw .denied(
                "'\(PathForm(directory.path).path.excerpt)' is a directory: prepare the files you want")
        }
        let isClosed = state.withLock { state in
            if !state.isClosed { state.accesses[claim] = Begun(plan: plan, party: party) }
            return state.isClosed
        }
        if isClosed {
            plan.release()
            throw .cancelled
        }
        return Prepared(wanted: wanted, plan: plan, party: party)
    }

    /// Claims what was prepared, unless the connection was closed since then.
    func take(
        _ claim: ClaimID, _ prepared: Prepared,
        tell outcome: @escaping @Sendable (Engine.Decision, AccessPlan) -> Void
    ) throws(Failure) -> AccessPlan? {
        let (wanted, plan, party) = (prepared.wanted, prepared.plan, prepared.party)
        // As a program that knows nothing of Truce, which lets writers pass when it stands still.
        let nature = plan.isGuestReading && wanted.nature == .aware ? .handle : wanted.nature
        var request = Coordination.Request(claim, nature, plan.parts[0], Array(plan.parts.dropFirst()))
        request.within = wanted.within
        request.answering = wanted.answering
        let claimant = AwareClaimant(plan.parts.map(\.access), to: plan.claimed, by: party)
        let admission = service.engine.claim(request, by: claimant)
        // Unasked: as long as it meets nobody the engine does not ask, and yet things are done within it.
        if nature != .handle { service.engine.identify(claim, as: party) }
        // Closed meanwhile, before there was a claim to take back.
        if state.withLock({ $0.isClosed }) {
            service.engine.withdraw(claim)
            throw .cancelled
        }
        switch admission {
        case .granted: return plan
        case .waiting:
            service.engine.whenSettled(claim) { outcome($0, plan) }
            return nil
        }
    }

    /// Where a guest's access has its documents now; it is over if the guest may not do that there.
    func checkAgain(
        _ claim: ClaimID, _ plan: AccessPlan, _ intents: [IntentForm], for guest: Guest
    ) throws(Failure) -> [[UInt8]] {
        do throws(Failure) {
            return try zip(plan.documents, intents).map { (document, intent) throws(Failure) in
                let path = document.path
                var rights: Rights = []
                do throws(Failure) { rights = try guest.checked(intent.access, at: PathForm(path)) } catch {
                    rights = []
                }
                // Who may only read it gives way to writers, which this access does not.
                let isPlanned = intent.access.isWrite || plan.isGuestReading || rights.contains(.write)
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
    func end(_ claim: ClaimID) -> Engine.Ending { service.engine.endAtOnce(claim) }

    func finish(_ ending: borrowing Engine.Ending, of claim: ClaimID) {
        service.engine.finish(ending)
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
        case .busy: return told(.timedOut(explanation))
        case .deadlock: return told(.deadlock(explanation))
        case .presenterFailed:
            let items = state.withLock { $0.accesses[claim]?.plan.documents ?? [] }.map(\.item)
            let shown = items.flatMap { service.engine.census(of: $0).presenters.map(\.presenter) }
            let refusals = service.refusals.since(moment, of: explanation.refuser.map { [$0] } ?? shown)
            let refusers = explanation.refuser.map { [$0] } ?? refusals.map(\.presenter)
            // Others who refuse show what a guest may not see, maybe.
            if service.guest(peer) != nil, !Set(refusers).isSubset(of: shown) {
                return .refused(by: [], "", nil)
            }
            return .refused(
                by: refusers.compactMap { service.engine.actor(behind: $0) }, refusals.first?.words ?? "",
                refusals.first?.origin)
        }
    }

    /// The whole story names files that a guest may not see.
    private func told(_ failure: Failure) -> Failure {
        guard service.guest(peer) != nil, let end = failure.message.firstIndex(of: ":") else {
            return failure
        }
        var short = failure
        short.message = String(failure.message[..<end])
        return short
    }

    /// The client is to have a file kept that one of its accesses writes. It has that once in each access, or one client that may write
    /// to one file could fill the room of the file's owner.
    func takeKeeping(of path: PathForm, within claims: [ClaimID]) throws(Failure) {
        let plans = state.withLock { state in
            claims.compactMap { id in state.accesses[id].map { (id, $0.plan) } }
        }
        let writing = plans.compactMap { id, plan in plan.written(at: path.bytes ?? []).map { (id, $0.item) }
        }
        guard !writing.isEmpty else {
            throw .denied("you hold no access that writes '\(path.path.excerpt)': begin one first")
        }
        let isTaken = state.withLock { state in
            writing.contains { id, item in state.accesses[id]?.kept.insert(item).inserted ?? false }
        }
        guard isTaken else {
            throw .denied("'\(path.path.excerpt)' was kept within this access: begin another one first")
        }
    }

    /// The connection has ended, and ``close()`` will come.
    func abandon() { isGone.store(true, ordering: .relaxed) }

    /// Whether what the connection asks for is still to be done.
    func checkWanted() throws(Failure) {
        if isGone.load(ordering: .relaxed) { throw .cancelled }
    }

    /// The connection is gone.
    func close() {
        let (presenters, accesses) = state.withLock { state in
            defer { (state.isClosed, state.presenters, state.accesses) = (true, [], [:]) }
            return (state.presenters, state.accesses)
        }
        service.engine.remove(presenters.sorted())
        for presenter in presenters { service.refusals.forget(presenter) }
        for (claim, begun) in accesses.sorted(by: { $0.key < $1.key }) {
            service.engine.withdraw(claim)
            begun.plan.release()
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

    private func release(_ claim: ClaimID) {
        state.withLock { $0.accesses.removeValue(forKey: claim) }?.plan.release()
    }
}

// Whom a client speaks for, and what it says.
extension Holdings {
    /// Another process, for which the client acts or that saves for it: of its own user's, and of our own process numbers.
    private func party(of form: ProcessForm) throws(Failure) -> Party {
        let party = service.documents.party(ofProcess: form.pid)
        guard let process = party.process, form.started == nil || form.started == process.started else {
            throw .notFound("there is no process \(form.pid), or not any more")
        }
        guard peer.user == 0 || party.user == peer.user else {
            throw .denied("process \(form.pid) is not yours")
        }
        guard ProcessInspection.sharesNumbers(peer.pid) else {
            throw .denied("your process numbers mean nothing here: you are in another pid namespace")
        }
        return party
    }

    /// What is about to be moved, or was.
    func announce(_ move: MoveParameters, isDone: Bool) throws(Failure) {
        let (claim, path, newPath) = (
            ClaimID(move.access), move.path.bytes ?? [], move.newPath.bytes ?? []
        )
        // A rename that was seen has given the document its new name already.
        guard let begun = state.withLock({ $0.accesses[claim] }),
            let document = begun.plan.written(at: path) ?? begun.plan.written(at: newPath)
        else {
            throw .invalidParameters("the access does not write '\(move.path.path.excerpt)'")
        }
        if let guest = service.guest(peer) {
            _ = try guest.checked(.write(.forMoving), at: move.path)
            _ = try guest.checked(.write(.forReplacing), at: move.newPath)
        }
        guard isDone else { return }
        do throws(MoveFailure) {
            try service.documents.announceMove(of: document, to: newPath, by: begun.party, under: claim)
        } catch {
            throw Failure(error, move)
        }
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
