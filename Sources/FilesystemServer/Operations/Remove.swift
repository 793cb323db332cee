// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization
import VersionStore

/// `unlink(2)` and `rmdir(2)`.
///
/// Neither waits for a handle: an open file stays as it is for its handles.
final class Remove: Sendable {
    private let context: MountContext
    private let sourceWatch: SourceWatch
    private let cleanWriters: CleanWriters
    private let events: DocumentEvents
    private let identity: DocumentIdentity
    private let saveLifecycle: SaveLifecycle
    private let coordinator: RetryCoordinator
    private let closer: HandleCloser
    private let nameRequests: NameRequests
    private let engine: Engine
    private let processes: ProcessResolver
    private let nodes: NodeTable
    private let places: PlaceRegistry
    private let saves: SaveTracker
    private let documents: DocumentTable
    private let expectedRetries: ExpectedRetries<PendingOpen>

    init(
        _ context: MountContext, _ tree: FileTree, _ sourceWatch: SourceWatch, _ saves: SaveTracker,
        _ cleanWriters: CleanWriters, _ events: DocumentEvents, _ identity: DocumentIdentity,
        _ saveLifecycle: SaveLifecycle, _ coordinator: RetryCoordinator, _ closer: HandleCloser,
        _ nameRequests: NameRequests
    ) {
        self.context = context
        self.sourceWatch = sourceWatch
        self.cleanWriters = cleanWriters
        self.events = events
        self.identity = identity
        self.saveLifecycle = saveLifecycle
        self.coordinator = coordinator
        self.closer = closer
        self.nameRequests = nameRequests
        engine = context.engine
        processes = context.processes
        nodes = tree.nodes
        places = tree.places
        self.saves = saves
        documents = events.documents
        expectedRetries = coordinator.expectedRetries
    }

    func remove(
        _ name: borrowing FileName, in parent: NodeID, isDirectory: Bool, reply: consuming Reply
    ) {
        guard let directory = nodes[parent] else { return reply.fail(.stale) }
        guard !context.isPrivate(name, in: parent) else { return reply.fail(.noEntry) }
        let change = NameChange(name.copy(), in: directory, caller: reply.caller)
        guard let reply = coordinator.retryIfRenamedOutOfBand(change.caller, from: directory, reply) else {
            return
        }
        let former = coordinator.takeRetriedRequest(.removing(change), by: change.caller)
        // Entries of the directory were deleted first.
        if isDirectory { events.submitDeferredDeletions(in: directory, name) }
        let status: FileStatus
        do throws(Errno) {
            status = try directory.descriptor().descriptor.status(of: name)
        } catch {
            coordinator.giveUp(former)
            coordinator.clearRetryMark(change.caller)
            return reply.fail(error)
        }
        let known = nodes[FileKey(status)]
        if let known { closer.closeLingering(on: known) }
        saveLifecycle.noteUse(of: known, by: change.caller.thread)
        guard let node = known, isRemovalOfDocument(change, node, status, isDirectory: isDirectory) else {
            coordinator.giveUp(former)
            return applyRemoval(
                RemovalFacts(change, known, status, isDirectory: isDirectory), reply: reply)
        }
        let save = former?.save(of: node) ?? assessSave(ofUnlinking: change, node, status)
        let isAskedLater = save?.consultation == .afterwards
        // Presenters of directories above may not know yet that this name exists.
        let place =
            engine.hasAwareClients ? places.place(change.name, in: directory) : places.place(in: directory)
        let part = ClaimRequest.Part(
            node.item,
            AccessTable.removing(isSave: save?.evidence != nil || change.isPrivate || isAskedLater), at: place
        )
        let request = ClaimedRequest(
            .removing(change), ClaimRequest(engine.makeClaimID(), .nameChange, part), save: save,
            isInPackage: places.isInPackage(directory), by: change.caller.thread, processes: processes)
        let removal = RemovalFacts(change, node, status, isDirectory: isDirectory, save: save)
        // A retried request uses the claim it made before ESTALE.
        coordinator.coordinate(request, after: former, reply: reply) { [self] request, grant, reply in
            nameRequests.preserveThenApply(request, grant, endangering: node, reply: reply) { [self] reply in
                applyRemoval(removal, under: request.claim, reply: reply)
            }
        }
    }

    /// Whether a name is removed under which another program may know a document.
    private func isRemovalOfDocument(
        _ change: NameChange, _ node: Node, _ status: FileStatus, isDirectory: Bool
    ) -> Bool {
        // An empty directory may have presenters or users of names that are missing in it. A directory with entries cannot be
        // removed.
        if status.isDirectory { return isDirectory && engine.hasAwareClients && node.isEmptyDirectory }
        guard status.isRegularFile else { return false }
        guard engine.hasAwareClients else { return true }
        // Swap, lock and backup files are not documents, and no presenter is asked about them. But a backup may be the former
        // document, to which a program still writes.
        if change.isPrivate {
            return node.itemClass != .database && node.isOpen
        }
        let isPresented = engine.isPresented(node.item)
        if node.itemClass == .database { return isPresented }
        // The contents stay under another name, and presenters know the file by one of its names.
        return status.linkCount == 1 || (isPresented && node.isCalled(change.name, in: change.directory))
    }

    /// `claim` is the claim for which the presenters were asked, if there is one.
    private func applyRemoval(_ removal: RemovalFacts, under claim: ClaimID? = nil, reply: consuming Reply)
    {
        let (change, node, status) = (removal.change, removal.node, removal.status)
        coordinator.clearRetryMark(change.caller)
        sourceWatch.noteOwn(change.name, in: change.directory)
        let isVacating = removal.save?.evidence != nil
        if isVacating { saves.beginStep(in: change.directory.id) }
        defer { if isVacating { saveLifecycle.endStep(in: change.directory) } }
        do throws(Errno) {
            try node?.keepAsOrphan(ifLastNameOf: status)
            let below = try change.directory.descriptor()
            try change.name.withName { (name) throws(Errno) in
                try below.descriptor.remove(name, isDirectory: removal.isDirectory)
            }
        } catch {
            node?.cancelOrphan()
            return reply.fail(error)
        }
        engine.journal.note(.unlinked, at: Engine.now, by: change.subject)
        if status.isRegularFile { saveLifecycle.noteDeparture(of: change) }
        if let node {
            let isLast = removal.isDirectory || status.linkCount <= 1
            let isKnown = isLast || node.isCalled(change.name, in: change.directory)
            if !isLast { cleanWriters.refreshBaselines(of: node) }
            identity.removeName(node, change.name, in: change.directory, wasLast: isLast)
            if let save = removal.save, let evidence = save.evidence {
                saveLifecycle.openPendingSave(
                    change.name, in: change.directory, of: node, isGone: true, by: save.saver,
                    evidence: evidence, audience: save.audience, thread: change.caller.thread)
            } else if removal.save?.consultation == .afterwards, !documents.isTracked(node.item) {
                events.deferDeletion(of: change)
            } else if isKnown {
                identity.loseDocument(of: node, called: change, under: claim)
            } else {
                // The document still has its name; presenters of the directory receive the event for the other name.
                events.noteNames(of: node)
                events.noteDeletion(ofUnknown: change)
            }
        }
        // A request that follows the answer must find this claim ended and its events sent. Without aware clients no program
        // can reach a file without a name, so the answer comes first (D96); see `preserveThenApply`.
        if let claim, engine.hasAwareClients || status.linkCount > 1 { engine.end(claim) }
        reply.succeed()
        // Closing the backing file frees its blocks, which takes longest of all. Close it now, after the answer, and not when
        // the kernel forgets the file.
        if status.linkCount <= 1 { node?.closeBackingIfUnused() }
    }

    private func assessSave(ofUnlinking change: NameChange, _ node: Node, _ status: FileStatus)
        -> SaveAssessment?
    {
        let thread = change.caller.thread
        guard status.isRegularFile, thread > 0,
            saveLifecycle.mayConcernOthers(node) || expectedRetries.hasWaitingOpen(node.item)
        else { return nil }
        let program = processes.program(ofThread: thread)
        let isAnswering = saveLifecycle.isAnswering(thread, about: node)
        let isPresented = engine.hasAwareClients && engine.isPresented(node.item)
        let consultation = events.consultation(aboutRemoving: node, status, change, by: program)
        let mayBeSave =
            isPresented || processes.programs.unlinksToCreate(program) || consultation == .afterwards
            || saves.knowsHelperFiles
        guard mayBeSave, let saver = processes.saver(ofThread: thread) else { return nil }
        saveLifecycle.noteEndedMakers(besides: saver, of: change)
        let mayBeSaved =
            !processes.programs.removesFiles(program) && engine.bounds.policy != .fail
            && saveLifecycle.mayBeSaved(node, in: change.directory, by: thread)
        let evidence = saves.change { state in
            state.noteActivity(by: saver, at: Engine.now)
            return state.saveDetector.evidence(
                whenUnlinking: change.name.bytes, NodeNumber(node.id.rawValue),
                in: NodeNumber(change.directory.id.rawValue), isRegularFile: true,
                isPresented: isPresented, isAnswering: isAnswering, mayBeSaved: mayBeSaved, by: saver,
                program: program, at: Engine.now)
        }
        var save = saveLifecycle.save(by: saver, evidence, of: node, in: change.directory, thread)
        if save.evidence == nil { save.consultation = consultation }
        return save
    }
}

/// A name that is about to be removed, with its node and status.
///
/// A class, because it is passed on often, and a struct of this size is copied each time.
private final class RemovalFacts: Sendable {
    let change: NameChange
    let node: Node?
    let status: FileStatus
    let isDirectory: Bool
    let save: SaveAssessment?

    init(
        _ change: NameChange, _ node: Node?, _ status: FileStatus, isDirectory: Bool,
        save: SaveAssessment? = nil
    ) {
        self.change = change
        self.node = node
        self.status = status
        self.isDirectory = isDirectory
        self.save = save
    }
}
