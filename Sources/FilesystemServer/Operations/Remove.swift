// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem

/// Carries out unlink(2) and rmdir(2).
///
/// Neither call waits for programs that have the file open: those programs keep the contents.
final class Remove: Sendable {
    private let context: MountContext
    private let sourceWatch: SourceWatch
    private let cleanWriters: CleanWriters
    private let conflictCopies: ConflictCopies
    private let events: DocumentEvents
    private let identity: DocumentIdentity
    private let saveLifecycle: SaveLifecycle
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
        _ cleanWriters: CleanWriters, _ conflictCopies: ConflictCopies, _ events: DocumentEvents,
        _ identity: DocumentIdentity, _ saveLifecycle: SaveLifecycle, _ coordinator: RetryCoordinator,
        _ closer: HandleCloser, _ nameRequests: NameRequests
    ) {
        self.context = context
        self.sourceWatch = sourceWatch
        self.cleanWriters = cleanWriters
        self.conflictCopies = conflictCopies
        self.events = events
        self.identity = identity
        self.saveLifecycle = saveLifecycle
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
        nameRequests.run(self, .removing(change), reply: reply) { () throws(Errno) in
            // The entries of this directory were deleted shortly before. The events of these deletions were deferred,
            // and must be sent before the event of the directory.
            if isDirectory { events.submitDeferredDeletions(in: directory, name) }
            let status = try directory.descriptor().descriptor.status(of: name)
            return RemovalFacts(change, nodes[FileKey(status)], status, isDirectory: isDirectory)
        }
    }

    /// Returns whether the removal of this name may take a document away from another program.
    private func isRemovalOfDocument(
        _ change: NameChange, _ node: Node, _ status: FileStatus, isDirectory: Bool
    ) -> Bool {
        // rmdir(2) removes only empty directories. A program may present an empty directory, or wait for a missing name
        // in it.
        if status.isDirectory { return isDirectory && engine.hasAwareClients && node.isEmptyDirectory }
        guard status.isRegularFile else { return false }
        guard engine.hasAwareClients else { return true }
        // The name is that of a helper file, such as a swap, lock or backup file. No presenter is asked about its
        // removal. But a backup may be a document's old file, and a program may still have it open.
        if change.isPrivate {
            return node.itemClass != .database && node.isOpen
        }
        let isPresented = engine.isPresented(node.item)
        if node.itemClass == .database { return isPresented }
        // If the file has another name, no contents are lost. Then the removal matters only if this is the name by
        // which presenters know the file.
        return status.linkCount == 1 || (isPresented && node.isCalled(change.name, in: change.directory))
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

extension Remove: NameOperation {
    func prepare(_ facts: RemovalFacts) {
        if let node = facts.node { closer.closeLingering(on: node) }
        saveLifecycle.noteUse(of: facts.node, by: facts.change.caller.thread)
    }

    func lockRequest(for facts: RemovalFacts, after former: ClaimedRequest?) -> ClaimedRequest? {
        let (change, status) = (facts.change, facts.status)
        guard let node = facts.node,
            isRemovalOfDocument(change, node, status, isDirectory: facts.isDirectory)
        else { return nil }
        let directory = change.directory
        let save = former?.save(of: node) ?? assessSave(ofUnlinking: change, node, status)
        let isAskedLater = save?.consultation == .afterwards
        // The claim contains the name that is removed, because presenters of directories above it may not know this
        // name yet.
        let place =
            engine.hasAwareClients ? places.place(change.name, in: directory) : places.place(in: directory)
        let part = ClaimRequest.Part(
            node.item,
            AccessTable.removing(isSave: save?.evidence != nil || change.isPrivate || isAskedLater), at: place
        )
        return ClaimedRequest(
            .removing(change), ClaimRequest(engine.makeClaimID(), .nameChange, part), save: save,
            isInPackage: places.isInPackage(directory), by: change.caller.thread, processes: processes)
    }

    func endangered(by facts: RemovalFacts, _ save: SaveAssessment?) -> EndangeredFiles {
        EndangeredFiles(replaced: facts.node)
    }

    func documentStep(_ facts: RemovalFacts) -> DocumentStep? {
        // A file that is only noted in its node is forgotten when it is removed.
        guard let node = facts.node, node.isRemembered else { return nil }
        return .vacates(
            node, EntryName(facts.change.name, in: facts.change.directory),
            isLast: facts.status.linkCount <= 1)
    }

    /// Begins the removal. Returns whether the removal makes a document's name missing in the middle of a save.
    func begin(_ facts: RemovalFacts, _ step: NameStep?) -> Bool {
        sourceWatch.noteOwn(facts.change.name, in: facts.change.directory)
        let isVacating = step?.save?.evidence != nil
        if isVacating { saves.beginStep(in: facts.change.directory.id) }
        return isVacating
    }

    func apply(_ facts: RemovalFacts) throws(Errno) {
        try facts.node?.keepAsOrphan(ifLastNameOf: facts.status)
        let below = try facts.change.directory.descriptor()
        try facts.change.name.withName { (name) throws(Errno) in
            try below.descriptor.remove(name, isDirectory: facts.isDirectory)
        }
    }

    func revert(_ facts: RemovalFacts) { facts.node?.cancelOrphan() }

    func publish(_ outcome: inout Void, of facts: RemovalFacts, _ step: NameStep?) {
        let (change, status, save) = (facts.change, facts.status, step?.save)
        engine.journal.note(.unlinked, at: Engine.now, by: change.subject)
        if status.isRegularFile {
            saveLifecycle.noteDeparture(of: change)
            conflictCopies.noteDeparture(of: change.name, in: change.directory)
        }
        if save?.evidence == nil, status.isRegularFile || status.isDirectory { noteInHistory(facts) }
        guard let node = facts.node else { return }
        let isLast = facts.isDirectory || status.linkCount <= 1
        let isKnown = isLast || node.isCalled(change.name, in: change.directory)
        if !isLast { cleanWriters.refreshBaselines(of: node) }
        identity.removeName(node, change.name, in: change.directory, wasLast: isLast)
        if let save, let evidence = save.evidence {
            saveLifecycle.openPendingSave(
                change.name, in: change.directory, of: node, isGone: true, by: save.saver,
                evidence: evidence, audience: save.audience, thread: change.caller.thread)
        } else if save?.consultation == .afterwards, !documents.isTracked(node.item) {
            events.deferDeletion(of: change)
        } else if isKnown {
            identity.loseDocument(of: node, called: change, under: step?.claim)
        } else {
            // The document has another name, by which presenters know it. Only presenters of the directory get an event
            // for the removed name.
            events.noteNames(of: node)
            events.noteDeletion(ofUnknown: change)
        }
    }

    private func noteInHistory(_ facts: RemovalFacts) {
        guard context.history.isRecording else { return }
        context.history.note(
            .removed(.lastKnown(facts.status)), facts.change,
            by: processes.author(ofThread: facts.change.caller.thread))
    }

    /// Returns whether the claim ends before the answer.
    ///
    /// If there are no clients of the control socket, no program can reach a file that has lost its last name. Then the
    /// answer comes first, to save time (D96).
    func endsClaimBeforeAnswer(_ facts: RemovalFacts) -> Bool {
        engine.hasAwareClients || facts.status.linkCount > 1
    }

    func answer(_ outcome: Void, of facts: RemovalFacts, _ step: NameStep?, reply: consuming Reply) {
        reply.succeed()
        // The backing file is closed now, and not later when the kernel forgets the file. The close frees the blocks,
        // which takes longer than all other steps, so it comes after the answer.
        if facts.status.linkCount <= 1 { facts.node?.closeBackingIfUnused() }
    }

    func finish(_ isVacating: Bool, _ facts: RemovalFacts) {
        if isVacating { saveLifecycle.endStep(in: facts.change.directory) }
    }
}

/// A name that is about to be removed, with the node and status of its file.
///
/// This is a class, because a struct of this size would be copied at each call.
final class RemovalFacts: NameFacts {
    let change: NameChange
    let node: Node?
    let status: FileStatus
    let isDirectory: Bool

    init(_ change: NameChange, _ node: Node?, _ status: FileStatus, isDirectory: Bool) {
        self.change = change
        self.node = node
        self.status = status
        self.isDirectory = isDirectory
    }
}
