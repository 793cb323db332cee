// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import VersionStore

/// Takes the steps of requests that change names (``NameOperation``).
final class NameRequests: Sendable {
    /// Makes files as the requester, if the current thread cannot.
    let makers: WorkerPool
    private let context: MountContext
    private let preserver: ContentPreserver
    private let coordinator: RetryCoordinator
    private let unsavedStats: UnsavedStats
    private let engine: Engine
    private let processes: ProcessResolver
    private let handles: HandleTable
    private let places: PlaceRegistry
    private let documents: DocumentTable

    init(
        _ context: MountContext, _ tree: FileTree, _ preserver: ContentPreserver, _ events: DocumentEvents,
        _ coordinator: RetryCoordinator, _ unsavedStats: UnsavedStats
    ) throws(Errno) {
        self.context = context
        self.preserver = preserver
        self.coordinator = coordinator
        self.unsavedStats = unsavedStats
        engine = context.engine
        processes = context.processes
        handles = tree.handles
        places = tree.places
        documents = events.documents
        makers = try WorkerPool(threads: 1) { [engine = context.engine] in
            // Without this the thread makes no files; it never makes them as another user.
            do { try ThreadIdentity.prepare() } catch { engine.log("a thread cannot make files: \(error)") }
        }
    }

    /// Takes the steps of a request, in the order of ``NameOperation``. `resolve` reads what the names lead to.
    func run<Operation: NameOperation>(
        _ operation: Operation, _ kind: ClaimedRequest.Kind, mayRetry: Bool = true, reply: consuming Reply,
        resolve: () throws(Errno) -> Operation.Facts
    ) {
        let caller = reply.caller
        guard let reply = retryIfStale(kind, caller, unless: !mayRetry, reply) else { return }
        let former = coordinator.takeRetriedRequest(kind, by: caller)
        let facts: Operation.Facts
        do throws(Errno) { facts = try resolve() } catch {
            coordinator.abandon(former)
            coordinator.clearRetryMark(caller)
            return reply.fail(error)
        }
        guard
            let reply = coordinator.retryIfRenamedOutOfBand(
                caller, toFind: facts.visits, unless: former != nil, reply)
        else { return }
        operation.prepare(facts)
        guard let request = operation.lockRequest(for: facts, after: former) else {
            coordinator.giveUp(former)
            return carryOut(operation, facts, nil, reply: reply)
        }
        let save = request.save
        // A retried request uses the claim it made before ESTALE.
        coordinator.coordinate(request, after: former, reply: reply) { [self] request, grant, reply in
            let step = NameStep(claim: request.claim, isForced: grant.basis == .proceeded, save: save)
            if Operation.makesFile {
                return asRequester(under: request.claim, in: facts.change.directory, reply) { [self] reply in
                    carryOut(operation, facts, step, reply: reply)
                }
            }
            let files = operation.endangered(by: facts, save)
            preserve(files, request, grant, reply: reply) { [self] reply in
                carryOut(operation, facts, step, reply: reply)
            }
        }
    }

    /// Answers ESTALE if the directory of a name was renamed out of band.
    private func retryIfStale(
        _ kind: ClaimedRequest.Kind, _ caller: Caller, unless isFinal: Bool, _ reply: consuming Reply
    ) -> Reply? {
        switch kind {
        case .resizing: return reply
        case .making(let change), .removing(let change):
            return coordinator.retryIfRenamedOutOfBand(
                caller, from: change.directory, unless: isFinal, reply)
        case .renaming(let from, let to):
            guard
                let reply = coordinator.retryIfRenamedOutOfBand(
                    caller, from: from.directory, unless: isFinal, reply)
            else { return nil }
            return coordinator.retryIfRenamedOutOfBand(caller, from: to.directory, unless: isFinal, reply)
        }
    }

    /// Takes a step that is granted, or that needs no claim.
    private func carryOut<Operation: NameOperation>(
        _ operation: Operation, _ facts: Operation.Facts, _ step: NameStep?, reply: consuming Reply
    ) {
        coordinator.clearRetryMark(facts.change.caller)
        let scope = operation.begin(facts, step)
        defer { operation.finish(scope, facts) }
        var outcome: Operation.Outcome
        do throws(Errno) { outcome = try operation.apply(facts) } catch {
            operation.revert(facts)
            if Operation.makesFile, let step { engine.end(step.claim) }
            return operation.fail(reply, error)
        }
        operation.publish(&outcome, of: facts, step)
        if let step, operation.endsClaimBeforeAnswer(facts) { engine.end(step.claim) }
        operation.answer(outcome, of: facts, step, reply: reply)
    }

    /// The request for a new name; nil if no program waits for it.
    ///
    /// The kernel retries a request that was answered ESTALE, and may then find something else under the name. So its claim
    /// ends when it is granted. The retried request makes its step under a new claim, which is granted at once.
    func lockRequest(for change: NameChange) -> ClaimedRequest? {
        guard let part = awaitedNamePart(by: change) ?? changeOfPackage(by: change) else { return nil }
        return ClaimedRequest(
            .making(change), ClaimRequest(engine.makeClaimID(), .nameChange, part), by: change.caller.thread,
            processes: processes)
    }

    /// The claim for a name under which a program awaits or already has a document.
    ///
    /// Its presenters are asked only to admit a writer: a missing document cannot be deleted.
    func awaitedNamePart(by change: NameChange) -> ClaimRequest.Part? {
        guard engine.hasAwareClients, let document = documents.awaiting(change.name, in: change.directory)
        else {
            return nil
        }
        return ClaimRequest.Part(document, AccessTable.filling, at: places.place(in: change.directory))
    }

    /// The claim for a new name in a package that another program may use as a whole.
    func changeOfPackage(by change: NameChange) -> ClaimRequest.Part? {
        guard places.isInPackage(change.directory), !change.isPrivate else { return nil }
        let directory = change.directory
        return ClaimRequest.Part(
            directory.item, AccessTable.makingInPackage, at: places.place(of: directory))
    }

    /// A request that waited under a lock continues on the thread that decided it. That thread may be unable to make files with
    /// another identity.
    private func asRequester(
        under claim: ClaimID, in directory: Node, _ reply: consuming Reply,
        _ step: @escaping @Sendable (consuming Reply) -> Void
    ) {
        if ThreadIdentity.isPrepared { return step(reply) }
        let parked = Parked(reply)
        let make: @Sendable () -> Void = { [engine] in
            guard let reply = parked.take() else { return }
            guard ThreadIdentity.isPrepared else {
                engine.end(claim)
                return reply.fail(.io)
            }
            step(reply)
        }
        if directory.isDistant { directory.threads(for: .making).run(make) } else { makers.run(make) }
    }

    func impersonate(_ caller: Caller) {
        ThreadIdentity.become(user: caller.user, group: caller.group, umask: caller.umask)
    }

    /// Preserves the contents that a step would destroy: those of a file that others write to, or that its presenters did not
    /// relinquish. Then takes the step, and ends its claim unless the step did.
    private func preserve(
        _ files: EndangeredFiles, _ request: ClaimedRequest, _ grant: Grant, reply: consuming Reply,
        then step: @escaping @Sendable (consuming Reply) -> Void
    ) {
        let (node, others) = (files.replaced, files.aside)
        let (writers, hasUnseen) = strangers(writingTo: node, passedBy: request, grant)
        let isUnanswered = !grant.unanswered.isEmpty
        let isSavedForLook = node.map { unsavedStats.hasUnreadSave($0.item, by: request.thread) } ?? false
        let isLost = !writers.isEmpty || hasUnseen || isUnanswered || isSavedForLook
        let lost = node.flatMap { $0.kind == S_IFREG && isLost ? $0 : nil }
        let aside = others.filter { node in
            guard node.kind == S_IFREG else { return false }
            // Of two exchanged files one may be the new contents, which no other program uses.
            let isShown = others.count < 2 || request.isInPackage || engine.isPresented(node.item)
            return (isUnanswered && isShown) || strangers(writingTo: node, passedBy: request, grant).hasUnseen
        }
        guard let first = lost ?? aside.first else {
            step(reply)
            return engine.end(request.claim)
        }
        let parked = Parked(reply)
        context.work(on: first, for: .preserving) { [self] in
            for node in aside {
                preserver.preserveSetAside(node, because: grant.preservationCause, by: request)
            }
            // Contents that a presenter did not relinquish are lost even without a writer. Contents written in an unfinished
            // access are lost, too, because their writer is unknown.
            let mustStay = hasUnseen || isUnanswered || isSavedForLook
            if let lost {
                preserveFile(
                    lost, for: writers, mustStay: mustStay, because: grant.preservationCause, by: request)
            }
            if let reply = parked.take() { step(reply) }
            engine.end(request.claim)
        }
    }

    /// The writers of other programs that a granted name change preempts. The flag says whether it also preempts an access
    /// without a handle, in which other programs' handles may write (G5).
    private func strangers(
        writingTo node: Node?, passedBy request: ClaimedRequest, _ grant: Grant
    ) -> (writers: [Handle], hasUnseen: Bool) {
        guard let node else { return ([], false) }
        let unclaimed = writersWithoutTurns(on: node)
        // Writers of a renamed file continue with it.
        let listed = grant.preempted.compactMap { engine.claimant(of: $0.claim) }
            .filter { ($0 as? Handle)?.node ?? node === node }
        let met = grant.preemptsMore ? listed.filter { !($0 is Handle) } + handles.writers(on: node) : listed
        guard !met.isEmpty || !unclaimed.isEmpty else { return ([], false) }
        let party = request.identify()
        let isStranger = { (claimant: any Claimant) in !claimant.identify().isExempt(from: party) }
        let preempted = met.filter(isStranger)
        return (
            preempted.compactMap { $0 as? Handle } + unclaimed.filter(isStranger),
            preempted.contains { !($0 is Handle) && $0.mayWrite(node.path) }
        )
    }

    /// Writers without coordination (``Handle/writesUncoordinated``), if the file is about to lose its last name. The programs
    /// of PostgreSQL are left out, since they remove each other's files.
    private func writersWithoutTurns(on node: Node) -> [Handle] {
        guard node.isOpen else { return [] }
        let writers = handles.writers(on: node).filter(\.writesUncoordinated)
        guard !writers.isEmpty, !node.isInCluster else { return [] }
        do throws(Errno) {
            return try node.descriptor().descriptor.status().linkCount > 1 ? [] : writers
        } catch {
            return writers
        }
    }

    /// Preserves a file that others write to. A writer that was closed meanwhile is checked again for written data.
    private func preserveFile(
        _ node: Node, for writers: [Handle], mustStay: Bool, because cause: PreservationCause,
        by subject: any JournalSubject
    ) {
        let others = handles.writers(on: node).filter { handle in !writers.contains { $0 === handle } }
        preserver.preserveFile(
            node, for: writers, and: others, mustStay: mustStay, because: cause, by: subject)
        // Not by the handle table, which lacks a handle that is being opened.
        for writer in writers + others where writer.isClosed {
            preserver.releaseFiles(of: writer)
        }
    }
}

extension Claimant {
    /// Whether one of its accesses writes to a path or to a directory above it.
    fileprivate func mayWrite(_ path: [UInt8]) -> Bool {
        intents.contains { intent in
            guard intent.access.isWrite else { return false }
            let own = intent.path()
            return own.isEmpty || path == own || path.starts(with: own + [UInt8(ascii: "/")])
        }
    }
}
