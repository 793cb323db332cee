// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import VersionStore

/// Carries out requests that change names, step by step (``NameOperation``).
final class NameRequests: Sendable {
    /// Threads that make files as the requester's user, for requests on threads that cannot do so.
    let makers: WorkerPool
    private let context: MountContext
    private let preserver: ContentPreserver
    private let coordinator: RetryCoordinator
    private let unseenOverwrites: UnseenOverwrites
    private let merger: SaveMerger
    private let events: DocumentEvents
    private let unsavedStats: UnsavedStats
    private let writeHistory: WriteHistory
    private let engine: Engine
    private let processes: ProcessResolver
    private let handles: HandleTable
    private let places: PlaceRegistry
    private let documents: DocumentTable

    init(
        _ context: MountContext, _ tree: FileTree, _ preserver: ContentPreserver,
        _ unseenOverwrites: UnseenOverwrites, _ merger: SaveMerger, _ events: DocumentEvents,
        _ coordinator: RetryCoordinator, _ unsavedStats: UnsavedStats, _ writeHistory: WriteHistory
    ) throws(Errno) {
        self.context = context
        self.preserver = preserver
        self.unseenOverwrites = unseenOverwrites
        self.merger = merger
        self.events = events
        self.coordinator = coordinator
        self.unsavedStats = unsavedStats
        self.writeHistory = writeHistory
        engine = context.engine
        processes = context.processes
        handles = tree.handles
        places = tree.places
        documents = events.documents
        makers = try WorkerPool(threads: 1) { [engine = context.engine] in
            // A thread that could not be prepared makes no files. It must never make a file as the wrong user.
            do { try ThreadIdentity.prepare() } catch { engine.log("a thread cannot make files: \(error)") }
        }
    }

    /// Carries out a request, in the order of steps that ``NameOperation`` lists. `resolve` finds the files that the
    /// request's names lead to.
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
        let change = operation.documentStep(facts)
        // A retry uses the claim that was made for the request before the answer ESTALE.
        coordinator.coordinate(
            request, after: former, during: unseenOverwrites.pause(before: change, by: caller.thread),
            reply: reply
        ) { [self] request, grant, reply in
            let step = NameStep(claim: request.claim, isForced: grant.basis == .proceeded, save: save)
            if Operation.makesFile {
                return asRequester(under: request.claim, in: facts.change.directory, reply) { [self] reply in
                    carryOut(operation, facts, step, reply: reply)
                }
            }
            let files = operation.endangered(by: facts, save)
            // The writers are listed before the review. So each write is noticed: the review finds the contents of a writer that
            // has already closed the file, and what a listed writer leaves is preserved.
            let writers = strangers(writingTo: files.replaced, passedBy: request, grant)
            // Most steps concern no other program, and no run. They need none of the next two steps.
            guard writeHistory.isNeeded || unseenOverwrites.mayConcern(change, by: request.thread) else {
                return preserve(files, from: writers, request, grant, reply: reply) { [self] reply in
                    carryOut(operation, facts, step, reply: reply)
                }
            }
            keepHistory(of: files, request, reply: reply) { [self] reply in
                prepare(change, request, beside: writers.handles, reply: reply) {
                    [self] reviewed, passage, reply in
                    let step = step.reviewed(as: reviewed, in: passage)
                    preserve(files, from: writers, request, grant, reply: reply) { [self] reply in
                        carryOut(operation, facts, step, reply: reply)
                    }
                }
            }
        }
    }

    /// Preserves contents that the program of a request would perhaps replace without having read them, or merges them with the
    /// new contents. Then continues.
    private func prepare(
        _ change: DocumentStep?, _ request: ClaimedRequest, beside writers: [Handle],
        reply: consuming Reply,
        then next: @escaping @Sendable (ReviewedStep?, MergePassage?, consuming Reply) -> Void
    ) {
        guard let change, unseenOverwrites.mayMerge else {
            return review(change, request, beside: writers, reply: reply) { next($0, nil, $1) }
        }
        let parked = Parked(reply)
        unseenOverwrites.merges.passSoon(change.node.id) { [self] passage in
            guard let reply = parked.take() else { return engine.end(request.claim) }
            review(change, request, beside: writers, reply: reply) { next($0, passage, $1) }
        }
    }

    private func review(
        _ change: DocumentStep?, _ request: ClaimedRequest, beside writers: [Handle], reply: consuming Reply,
        then next: @escaping @Sendable (ReviewedStep?, consuming Reply) -> Void
    ) {
        let reviewed = unseenOverwrites.review(change, by: request.thread)
        let isPreserved = reviewed?.review.view.isUnseen ?? false && areWriting(writers)
        guard let reviewed, !reviewed.review.isHarmless else { return next(reviewed, reply) }
        let parked = Parked(reply)
        context.work(on: reviewed.step.node, for: .preserving) { [self] in
            let mayGoOn = unseenOverwrites.prepare(
                reviewed, by: request, thread: request.thread, isPreserved: isPreserved)
            guard let reply = parked.take() else { return engine.end(request.claim) }
            if mayGoOn { return next(merger.merged(reviewed, thread: request.thread), reply) }
            engine.end(request.claim)
            reply.fail(.busy)
        }
    }

    /// Answers ESTALE if one of the directories of the request was renamed out of band. Otherwise returns the reply.
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

    /// Carries out a request whenever its claim is granted, or if it needs no claim.
    private func carryOut<Operation: NameOperation>(
        _ operation: Operation, _ facts: Operation.Facts, _ step: NameStep?, reply: consuming Reply
    ) {
        coordinator.clearRetryMark(facts.change.caller)
        let scope = operation.begin(facts, step)
        defer { operation.finish(scope, facts) }
        var outcome: Operation.Outcome
        do throws(Errno) { outcome = try operation.apply(facts) } catch {
            operation.revert(facts)
            if let reviewed = step?.reviewed {
                merger.revert(reviewed)
                unseenOverwrites.abandon(reviewed)
            }
            step?.passage?.end()
            if Operation.makesFile, let step { engine.end(step.claim) }
            return operation.fail(reply, error)
        }
        operation.publish(&outcome, of: facts, step)
        if let reviewed = step?.reviewed { unseenOverwrites.publish(reviewed) }
        step?.passage?.end()
        if let reviewed = step?.reviewed { tellMerge(reviewed) }
        if let step, operation.endsClaimBeforeAnswer(facts) { engine.end(step.claim) }
        operation.answer(outcome, of: facts, step, reply: reply)
    }

    /// Notes that the file of a rename was merged before it became the document, if it was.
    private func tellMerge(_ reviewed: ReviewedStep) {
        guard reviewed.merged != nil, case .replaces(_, let node) = reviewed.step else { return }
        merger.publish(reviewed)
        events.noteMerge(of: node)
    }

    /// Returns the claim of a request that makes a new name. Returns nil if no document waits for a file at this name
    /// and the name is in no package.
    ///
    /// The claim ends as soon as it is granted. After ESTALE the kernel may find another file under the name and send
    /// no retry. If there is a retry, it makes a new claim, which is granted without a wait.
    func lockRequest(for change: NameChange) -> ClaimedRequest? {
        guard let part = awaitedNamePart(by: change) ?? changeOfPackage(by: change) else { return nil }
        return ClaimedRequest(
            .making(change), ClaimRequest(engine.makeClaimID(), .nameChange, part), by: change.caller.thread,
            processes: processes)
    }

    /// Returns the claim for a new name at which a document waits for a file. Returns nil if no document waits at this
    /// name.
    ///
    /// The claim does not ask the document's presenters to agree to a deletion, because a missing document cannot be
    /// deleted. They are only asked to let a writer use it.
    func awaitedNamePart(by change: NameChange) -> ClaimRequest.Part? {
        guard engine.hasAwareClients, let document = documents.awaiting(change.name, in: change.directory)
        else {
            return nil
        }
        return ClaimRequest.Part(document, AccessTable.filling, at: places.place(in: change.directory))
    }

    /// Returns the claim for a new name in a package, because another program may be using the whole package. Returns
    /// nil outside packages.
    func changeOfPackage(by change: NameChange) -> ClaimRequest.Part? {
        guard places.isInPackage(change.directory), !change.isPrivate else { return nil }
        let directory = change.directory
        return ClaimRequest.Part(
            directory.item, AccessTable.makingInPackage, at: places.place(of: directory))
    }

    /// Runs `step` on a thread that can make files as another user.
    ///
    /// A request that has waited continues on the thread that decided about its claim. That thread may be unable to
    /// make files as another user.
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

    /// Preserves the contents that documents had before a program replaces or removes them, if a run or a rule asks for it. Then
    /// calls `next`.
    private func keepHistory(
        of files: EndangeredFiles, _ request: ClaimedRequest, reply: consuming Reply,
        then next: @escaping @Sendable (consuming Reply) -> Void
    ) {
        guard writeHistory.isNeeded else { return next(reply) }
        let author = { [processes] in processes.author(ofThread: request.thread) }
        let nodes = ([files.replaced, files.leaving].compactMap(\.self) + files.aside).filter {
            $0.kind == S_IFREG && writeHistory.isDue($0, by: author(), thread: request.thread)
        }
        guard let first = nodes.first else { return next(reply) }
        let (known, user, parked) = (author(), request.user, Parked(reply))
        context.work(on: first, for: .preserving) { [self] in
            for node in nodes {
                writeHistory.preserve(node, by: known, user: user, losesName: node === files.replaced)
            }
            if let reply = parked.take() { next(reply) }
        }
    }

    /// Preserves the contents that a step would destroy, and takes the step. Then ends the claim, unless the step has
    /// already ended it.
    ///
    /// Contents are preserved if other programs write to the file, or if a presenter did not relinquish the file.
    private func preserve(
        _ files: EndangeredFiles, from strangers: Strangers,
        _ request: ClaimedRequest, _ grant: Grant, reply: consuming Reply,
        then step: @escaping @Sendable (consuming Reply) -> Void
    ) {
        let (node, others) = (files.replaced, files.aside)
        let (writers, hasUnseen) = (strangers.handles, strangers.hasUnseen)
        let isUnanswered = !grant.unanswered.isEmpty
        let isSavedForLook = node.map { unsavedStats.hasUnreadSave($0.item, by: request.thread) } ?? false
        // A program outside of the run has written a document of the run's leases (D237).
        let isForeign = node.map { engine.runs.hasForeignChange(of: $0.item, for: request.identify) } ?? false
        let isLost = !writers.isEmpty || hasUnseen || isUnanswered || isSavedForLook || isForeign
        let lost = node.flatMap { $0.kind == S_IFREG && isLost ? $0 : nil }
        let aside = others.filter { node in
            guard node.kind == S_IFREG else { return false }
            // In an exchange, one of the two files may be a temporary file with a document's next contents. Nothing of
            // that file need be preserved.
            let isShown = others.count < 2 || request.isInPackage || engine.isPresented(node.item)
            return (isUnanswered && isShown)
                || self.strangers(writingTo: node, passedBy: request, grant).hasUnseen
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
            // `mustStay`: whether the version stays even if no writer writes to the file afterwards. One reason is an
            // unfinished access without a handle: the daemon then does not know all writers.
            let mustStay = hasUnseen || isUnanswered || isSavedForLook || isForeign
            if let lost {
                preserveFile(
                    lost, for: writers, mustStay: mustStay, because: grant.preservationCause, by: request)
                engine.runs.noteOwnChange(of: lost.item, by: request.identify)
            }
            if let reply = parked.take() { step(reply) }
            engine.end(request.claim)
        }
    }

    /// The programs that may write to a file while a granted name change goes ahead of their claims.
    private struct Strangers: Sendable {
        var handles: [Handle] = []
        /// Whether the name change also goes ahead of an access without a handle. Other programs may then write by unknown
        /// handles (G5).
        var hasUnseen = false
    }

    /// Whether one of the writers has begun to write. What it leaves is then preserved instead of the contents of this moment
    /// (D222). A program that is just opening the file does not count, because it may overwrite these contents.
    private func areWriting(_ writers: [Handle]) -> Bool {
        guard writers.allSatisfy({ handles[$0.id] != nil }) else { return false }
        let writing = writers.filter(\.mayHaveWritten)
        // Later, the file's times may no longer show that they have written. Then the version would be dropped.
        for writer in writing { writer.markWritten() }
        return !writing.isEmpty
    }

    /// Returns the programs that may write to a file while a granted name change goes ahead of their claims.
    private func strangers(
        writingTo node: Node?, passedBy request: ClaimedRequest, _ grant: Grant
    ) -> Strangers {
        guard let node else { return Strangers() }
        let unclaimed = writersWithoutTurns(on: node)
        // A name change may involve two files. Writers to the file that is only renamed go on writing to it, so they
        // are left out.
        let listed = grant.preempted.compactMap { engine.claimant(of: $0.claim) }
            .filter { ($0 as? Handle)?.node ?? node === node }
        let met = grant.preemptsMore ? listed.filter { !($0 is Handle) } + handles.writers(on: node) : listed
        guard !met.isEmpty || !unclaimed.isEmpty else { return Strangers() }
        let party = request.identify()
        let isStranger = { (claimant: any Claimant) in !claimant.identify().isExempt(from: party) }
        let preempted = met.filter(isStranger)
        return Strangers(
            handles: preempted.compactMap { $0 as? Handle } + unclaimed.filter(isStranger),
            hasUnseen: preempted.contains { !($0 is Handle) && $0.mayWrite(node.path) })
    }

    /// Returns the writers of a file that make no claims (``Handle/writesUncoordinated``), if the file is about to lose
    /// its last name.
    ///
    /// Returns none for files of PostgreSQL, because its programs remove files that other PostgreSQL programs write to.
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

    /// Preserves a file to which other programs write. If a writer closes the file during this, the daemon checks
    /// afterwards whether that writer has written.
    private func preserveFile(
        _ node: Node, for writers: [Handle], mustStay: Bool, because cause: PreservationCause,
        by subject: any JournalSubject
    ) {
        let others = handles.writers(on: node).filter { handle in !writers.contains { $0 === handle } }
        preserver.preserveFile(
            node, for: writers, and: others, mustStay: mustStay, because: cause, by: subject)
        // Each handle itself says whether it is closed. The handle table does not show this, because a handle that is just
        // being opened is not in the table either.
        for writer in writers + others where writer.isClosed {
            preserver.releaseFiles(of: writer)
        }
    }
}

extension Claimant {
    /// Returns whether the claimant has an access that may write to this path, or to a directory above it.
    fileprivate func mayWrite(_ path: [UInt8]) -> Bool {
        intents.contains { intent in
            guard intent.access.isWrite else { return false }
            let own = intent.path()
            return own.isEmpty || path == own || path.starts(with: own + [UInt8(ascii: "/")])
        }
    }
}
