// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem

/// `rename(2)`, by which most programs save.
final class Rename: Sendable {
    private let context: MountContext
    private let sourceWatch: SourceWatch
    private let cleanWriters: CleanWriters
    private let events: DocumentEvents
    private let identity: DocumentIdentity
    private let saveLifecycle: SaveLifecycle
    private let closer: HandleCloser
    private let nameRequests: NameRequests
    private let engine: Engine
    private let connection: Connection
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
        self.closer = closer
        self.nameRequests = nameRequests
        engine = context.engine
        connection = context.connection
        processes = context.processes
        nodes = tree.nodes
        places = tree.places
        self.saves = saves
        documents = events.documents
        expectedRetries = coordinator.expectedRetries
    }

    func rename(
        _ name: borrowing FileName, in parent: NodeID, to newName: borrowing FileName,
        in newParent: NodeID, flags: UInt32, reply: consuming Reply
    ) {
        guard let directory = nodes[parent], let newDirectory = nodes[newParent] else {
            return reply.fail(.stale)
        }
        guard !context.isPrivate(name, in: parent), !context.isPrivate(newName, in: newParent) else {
            return reply.fail(.notPermitted)
        }
        let from = NameChange(name.copy(), in: directory, caller: reply.caller)
        let to = NameChange(newName.copy(), in: newDirectory, caller: reply.caller)
        nameRequests.run(self, .renaming(from, to: to), reply: reply) { () throws(Errno) in
            try resolveRename(from, to, flags: flags)
        }
    }

    /// Whether a rename needs a claim. Presenters and users of items in a moved directory are asked; without aware clients
    /// there are none.
    private func isClaimed(_ move: RenameFacts) -> Bool {
        // rename(2) does not replace a directory that has entries, so no presenter is asked to relinquish it.
        if let target = move.target, target.kind == S_IFDIR, !move.isExchange {
            return target.isEmptyDirectory
        }
        return move.status.isRegularFile || move.target != nil || engine.hasAwareClients
    }

    /// The request for a rename; nil if it concerns no other program.
    private func request(for move: RenameFacts, of node: Node, isSave: Bool) -> ClaimRequest? {
        let target = claimedTarget(of: move)
        if move.isOfOtherLink {
            let part = target ?? nameRequests.changeOfPackage(by: move.from)
            return part.map { ClaimRequest(engine.makeClaimID(), .nameChange, $0) }
        }
        let source = ClaimRequest.Part(
            node.item, AccessTable.moving(isSave: isSave), at: places.place(in: move.from.directory))
        return ClaimRequest(engine.makeClaimID(), .nameChange, source, target)
    }

    /// The claim for the target: the replaced file, or else an awaited name or the package around it.
    private func claimedTarget(of move: RenameFacts) -> ClaimRequest.Part? {
        if let target = move.target {
            if move.isOverOtherLink { return nil }
            let access = AccessTable.movingOnto(isUpdate: move.isUpdate, isExchange: move.isExchange)
            return ClaimRequest.Part(target.item, access, at: places.place(in: move.to.directory))
        }
        if let awaited = nameRequests.awaitedNamePart(by: move.to) { return awaited }
        return move.from.directory === move.to.directory ? nil : nameRequests.changeOfPackage(by: move.to)
    }

    private func resolveRename(_ from: NameChange, _ to: NameChange, flags: UInt32) throws(Errno)
        -> RenameFacts
    {
        let status = try from.directory.status(of: from.name)
        let targetStatus: FileStatus?
        do throws(Errno) {
            targetStatus = try to.directory.status(of: to.name)
        } catch {
            guard error == .noEntry else { throw error }
            targetStatus = nil
        }
        var visits: [RetainedNode] = []
        let node = self.node(of: status, called: from, visiting: &visits)
        var target = targetStatus.flatMap { nodes[FileKey($0)] }
        if target == nil, flags & RenameFlags.exchange != 0, let targetStatus {
            target = self.node(of: targetStatus, called: to, visiting: &visits)
        }
        var isOverOtherLink = false
        if let target, let targetStatus {
            isOverOtherLink = isTracked(target, targetStatus, elsewhereThan: to)
        }
        return RenameFacts(
            from: from, to: to, flags: flags, status: status, node: node, visits: visits,
            targetStatus: targetStatus, target: target,
            isOfOtherLink: isTracked(node, status, elsewhereThan: from),
            isOverOtherLink: isOverOtherLink)
    }

    /// The renamed node. The kernel has looked it up, so an unknown node was put there out of band.
    private func node(
        of status: FileStatus, called change: NameChange, visiting visits: inout [RetainedNode]
    ) -> Node {
        if let known = nodes[FileKey(status)] { return known }
        let visit = RetainedNode(to: status, as: change.name, in: change.directory, nodes)
        visits.append(visit)
        return visit.node
    }

    /// Whether a document is tracked by another of its names: its presenters know it by that name.
    private func isTracked(_ node: Node, _ status: FileStatus, elsewhereThan place: NameChange) -> Bool {
        status.linkCount > 1 && !status.isDirectory && node.isTracked
            && !node.isCalled(place.name, in: place.directory)
    }

    /// The renamed directories, with the names by which presenters know them.
    private func directoriesRenamed(by move: RenameFacts) -> [(Node, former: NodeName)] {
        guard engine.hasAwareClients else { return [] }
        var found: [(Node, former: NodeName)] = []
        if move.node.kind == S_IFDIR { found.append((move.node, move.from.known)) }
        if move.isExchange, let target = move.target, target.kind == S_IFDIR {
            found.append((target, move.to.known))
        }
        return found
    }

    /// Invalidates a name, because the kernel gives it to the node it has looked up.
    private func invalidateName(of change: NameChange) {
        context.work(on: change.directory, for: .fileObservation) { [self] in
            change.name.withName { connection.invalidateEntry($0, in: change.directory.id) }
        }
    }

    /// Updates nodes, documents and pending saves after a rename, and sends its events.
    private func publishRename(_ move: RenameFacts, _ save: SaveAssessment?, under claim: ClaimID?) {
        // Both names are links to the same file: POSIX says that nothing happens then.
        let node = move.node
        guard move.target !== node else { return }
        let thread = move.from.caller.thread
        // Presenters know a tracked file by one of its names; a move of another name does not concern them.
        let isKnown = !isTracked(node, move.status, elsewhereThan: move.from)
        if move.isExchange { return exchange(move, node, isKnown: isKnown, under: claim) }
        let isMoved = isKnown && !(save?.keepsName ?? false)
        if let save, save.keepsName, let evidence = save.evidence {
            // First, so that the document stays with the name, and only its former file takes over another document.
            saveLifecycle.openPendingSave(
                move.from.name, in: move.from.directory, of: node, isGone: false, by: save.saver,
                evidence: evidence, audience: save.audience, thread: thread)
        }
        let awaited =
            move.status.isRegularFile ? saveLifecycle.savedDocument(at: move.to, by: save?.saver) : nil
        if isMoved, engine.hasAwareClients { places.beginRename(of: node, from: move.from.known) }
        // Before any event is sent: later events of the file carry this name.
        if isKnown {
            identity.rename(node, to: move.to, isOneOfSeveral: move.isOneOfSeveral)
        } else {
            node.noteOtherName(move.to.name, in: move.to.directory)
        }
        node.lostOtherName(move.from.name, in: move.from.directory)
        var isUpdate = false
        if let target = move.target, let status = move.targetStatus {
            identity.removeName(
                target, move.to.name, in: move.to.directory,
                wasLast: status.linkCount <= 1 || status.isDirectory)
            // A file that is tracked by another name takes over only a tracked document; it is both documents then.
            isUpdate = move.isUpdate && (isKnown || documents.isTracked(target.item))
            if isUpdate {
                if isMoved {
                    events.tellMove(of: node, from: move.from, to: move.to, over: target.item, under: claim)
                }
                identity.takeOver(node, from: target)
            } else if !move.isOverOtherLink {
                identity.loseDocument(of: target, called: move.to, under: claim)
            }
        }
        documents.noteMoved(node)
        if isUpdate {
            engine.placePresenters(of: node.item)
            events.noteChange(of: node, .write(.updating), under: claim, byThread: thread)
        } else if isMoved {
            events.tellMove(of: node, from: move.from, to: move.to, over: awaited, under: claim)
        } else {
            // This is another name of a document; or the document stays with its name, and this is a backup.
            events.noteCreation(of: node, move.to, under: claim)
        }
        if !isKnown { events.noteDeletion(ofUnknown: move.from) }
        if isMoved, let save, save.evidence == .move {
            saveLifecycle.openPendingSave(ofMoved: node, called: move.from, by: save.saver)
        }
        fillName(of: move, node, save, under: claim)
    }

    /// Notes that both files are used, unless a file goes back to its name of a moment ago.
    private func noteUseOfFiles(in move: RenameFacts, by thread: Int32) {
        guard !saves.hasNoPendingSaves else { return }
        let (number, place) = (NodeNumber(move.node.id.rawValue), NodeNumber(move.to.directory.id.rawValue))
        let isReturn = saves.isReturn(of: number, to: move.to.name.bytes, in: place)
        if !isReturn || move.isExchange { saveLifecycle.noteUse(of: move.node, by: thread) }
        saveLifecycle.noteUse(of: move.target, by: thread)
    }

    /// Decides the role of a renamed file under its new name.
    private func fillName(
        of move: RenameFacts, _ node: Node, _ save: SaveAssessment?, under claim: ClaimID?
    ) {
        let number = NodeNumber(node.id.rawValue)
        let newPlace = NodeNumber(move.to.directory.id.rawValue)
        let (rolledBack, fill): (PendingSave?, FillOutcome?) = saves.change { state in
            if move.isUpdate {
                state.saveDetector.forget(number)
            } else {
                state.saveDetector.noteRenamed(
                    number, to: move.to.name.bytes, in: newPlace, at: Engine.now)
            }
            if let back = state.pendingSaves.resolveRollback(
                number, to: move.to.name.bytes, in: newPlace, by: save?.saver)
            {
                return (back, nil)
            }
            let fill = state.pendingSaves.resolveFill(
                move.to.name.bytes, in: newPlace, by: save?.saver, isFile: move.status.isRegularFile)
            return (nil, fill)
        }
        if let rolledBack {
            if rolledBack.evidence != .move { identity.adopt(rolledBack.document, by: node) }
            return saveLifecycle.closePendingSave(rolledBack, because: .rolledBack)
        }
        let isTakenBack = saveLifecycle.restoreDocument(
            move.to.name, in: move.to.directory, with: node, by: save?.saver, move.from.caller)
        let isDocument: Bool
        if isTakenBack {
            isDocument = true
        } else if let fill, fill.pendingSave.evidence != .move {
            isDocument = identity.fillName(of: fill, with: node)
        } else {
            // If the awaited document has no presenter, the move event is enough; its mover may have asked to replace it. This
            // is read first: once the name is filled, presenters of the moved file are presenters of the document.
            let awaiting = documents.awaiting(move.to.name, in: move.to.directory)
            let isShown = awaiting.map(engine.isPresented) ?? false
            let isAwaited = identity.fillAwaited(move.to.name, in: move.to.directory, with: node) {
                processes.currentParty(ofThread: move.from.caller.thread)
            }
            isDocument = isAwaited && isShown
        }
        if isDocument {
            events.noteChange(
                of: node, .write(.updating), under: claim, byThread: move.from.caller.thread)
        }
        if let fill { saveLifecycle.closePendingSave(fill.pendingSave, because: .filled) }
    }

    private func exchange(_ move: RenameFacts, _ node: Node, isKnown: Bool, under claim: ClaimID?) {
        guard let target = move.target else {
            if isKnown { identity.rename(node, to: move.to, isOneOfSeveral: move.isOneOfSeveral) }
            return
        }
        let isTargetKnown = !move.isOverOtherLink
        if isKnown, isTargetKnown, [node, target].allSatisfy({ $0.kind == S_IFREG }) {
            return exchangeContents(of: move, node, target, under: claim)
        }
        if isKnown { identity.rename(node, to: move.to, isOneOfSeveral: move.isOneOfSeveral) }
        if isTargetKnown { identity.rename(target, to: move.from, isOneOfSeveral: move.isTargetOneOfSeveral) }
        if isKnown { events.noteMove(of: node, from: move.from, to: move.to, under: claim) }
        if isTargetKnown {
            events.noteMove(of: target, from: move.to, to: move.from, isSecondHalf: isKnown, under: claim)
        }
        if !isKnown { noteOtherName(move.to, insteadOf: move.from, of: node, under: claim) }
        if !isTargetKnown { noteOtherName(move.from, insteadOf: move.to, of: target, under: claim) }
    }

    /// Notes a new name of a file that is tracked by another of its names.
    private func noteOtherName(
        _ change: NameChange, insteadOf former: NameChange, of node: Node, under claim: ClaimID?
    ) {
        node.noteOtherName(change.name, in: change.directory)
        node.lostOtherName(former.name, in: former.directory)
        events.noteCreation(of: node, change, under: claim)
    }

    /// Each document stays with its name and gets the other's contents, which is how some programs save (D20).
    private func exchangeContents(
        of move: RenameFacts, _ node: Node, _ target: Node, under claim: ClaimID?
    ) {
        let (document, other) = (node.item, target.item)
        // Both leave their files before either takes the other's; see `tellOfExchanges`.
        identity.part(node, from: move.from.name, in: move.from.directory)
        identity.part(target, from: move.to.name, in: move.to.directory)
        identity.rename(node, to: move.to, isOneOfSeveral: move.isOneOfSeveral)
        identity.rename(target, to: move.from, isOneOfSeveral: move.isTargetOneOfSeveral)
        identity.adopt(other, by: node)
        identity.adopt(document, by: target)
        for file in [node, target] {
            events.noteChange(of: file, .write(.updating), under: claim, byThread: move.from.caller.thread)
        }
    }

    /// Whether a rename vacates a document's name in the middle of a save, and which process saves.
    private func assessSave(of move: RenameFacts) -> SaveAssessment? {
        let thread = move.from.caller.thread
        guard thread > 0, move.status.isRegularFile, !move.isExchange else { return nil }
        let node = move.node
        // A second link of a file that is tracked by its name says nothing about the document.
        guard !move.isOfOtherLink else { return nil }
        // The caller may fill a name with this file that it vacated before.
        guard
            saveLifecycle.mayConcernOthers(node) || expectedRetries.hasWaitingOpen(node.item)
                || !saves.hasNoPendingSaves
        else { return nil }
        let isBackup = HelperFileName.isBackupName(move.to.name.bytes, of: move.from.name.bytes)
        let isRemembered = saves.remembersSteps
        let mayBeSaved = saveLifecycle.mayBeSaved(
            node, in: move.from.directory, onto: move.target, by: thread)
        let isAnswering = saveLifecycle.isAnswering(thread, about: node)
        guard isBackup || isRemembered || isAnswering || mayBeSaved,
            let saver = processes.saver(ofThread: thread)
        else { return nil }
        saveLifecycle.noteEndedMakers(besides: saver, of: move.from)
        let evidence = saves.change { state in
            state.noteActivity(by: saver, at: Engine.now)
            return state.saveDetector.evidence(
                whenRenaming: move.from.name.bytes, NodeNumber(node.id.rawValue),
                in: NodeNumber(move.from.directory.id.rawValue), to: move.to.name.bytes, isRegularFile: true,
                isAnswering: isAnswering, mayBeSaved: mayBeSaved, by: saver, at: Engine.now)
        }
        return saveLifecycle.save(by: saver, evidence, of: node, in: move.from.directory, thread)
    }
}

extension Rename: NameOperation {
    /// What a rename has begun.
    struct Scope {
        /// Whether a name is vacated in the middle of a save.
        let isVacating: Bool
        /// The directories that have other names than presenters know.
        let directories: [(Node, former: NodeName)]
    }

    func prepare(_ move: RenameFacts) {
        let node = move.node
        closer.closeLingering(on: node)
        if let target = move.target { closer.closeLingering(on: target) }
        if let target = move.target, target.kind == S_IFDIR, !move.isExchange {
            events.submitDeferredDeletions(in: target)
        }
        noteUseOfFiles(in: move, by: move.from.caller.thread)
        // A log or a database keeps its class under a second name.
        if node !== move.target, !move.keepsClass { identity.claimForWriters(of: node, named: move.to) }
        if move.isExchange, let target = move.target {
            identity.claimForWriters(of: target, named: move.from)
        }
    }

    func lockRequest(for move: RenameFacts, after former: ClaimedRequest?) -> ClaimedRequest? {
        guard move.node !== move.target, isClaimed(move) else { return nil }
        let save = former?.save(of: move.node) ?? assessSave(of: move)
        guard let wanted = request(for: move, of: move.node, isSave: save?.keepsName ?? false) else {
            return nil
        }
        return ClaimedRequest(
            .renaming(move.from, to: move.to), wanted, save: save,
            isInPackage: places.isInPackage(move.from.directory) || places.isInPackage(move.to.directory),
            by: move.from.caller.thread, processes: processes)
    }

    /// A save that first puts the document aside, or exchanges it, is going to remove it.
    func endangered(by move: RenameFacts, _ save: SaveAssessment?) -> EndangeredFiles {
        if move.isExchange { return EndangeredFiles(aside: [move.node, move.target].compactMap(\.self)) }
        return EndangeredFiles(replaced: move.target, aside: save?.keepsName ?? false ? [move.node] : [])
    }

    func begin(_ move: RenameFacts, _ step: NameStep?) -> Scope {
        sourceWatch.noteOwn(move.from.name, in: move.from.directory)
        sourceWatch.noteOwn(move.to.name, in: move.to.directory)
        let isVacating = step?.save?.evidence != nil
        if isVacating { saves.beginStep(in: move.from.directory.id) }
        move.node.renames.begin()
        let directories = directoriesRenamed(by: move)
        for (directory, former) in directories { places.beginRename(of: directory, from: former) }
        return Scope(isVacating: isVacating, directories: directories)
    }

    func apply(_ move: RenameFacts) throws(Errno) {
        if let status = move.targetStatus, !move.isExchange {
            try move.target?.keepAsOrphan(ifLastNameOf: status)
        }
        let (below, newBelow) = (try move.from.directory.descriptor(), try move.to.directory.descriptor())
        try move.from.name.withName { (name) throws(Errno) in
            try move.to.name.withName { (newName) throws(Errno) in
                try below.descriptor.rename(name, to: newName, in: newBelow.descriptor, flags: move.flags)
            }
        }
    }

    func revert(_ move: RenameFacts) {
        if !move.isExchange { move.target?.cancelOrphan() }
        for node in [move.node, move.target].compactMap(\.self) { identity.giveUpClaims(of: node) }
        move.node.renames.end()
    }

    func publish(_ outcome: inout Void, of move: RenameFacts, _ step: NameStep?) {
        engine.journal.note(.renamed, at: Engine.now, by: move.from.subject, "to \(move.to.name)")
        if move.status.isRegularFile, !move.isExchange { saveLifecycle.noteDeparture(of: move.from) }
        saveLifecycle.noteArrival(of: move.to.name, in: move.to.directory, by: move.to.caller.thread)
        cleanWriters.refreshBaselines(of: move.node)
        if let target = move.target { cleanWriters.refreshBaselines(of: target) }
        publishRename(move, step?.save, under: step?.claim)
        move.node.renames.end()
    }

    func answer(_ outcome: Void, of move: RenameFacts, _ step: NameStep?, reply: consuming Reply) {
        // An open racing with this rename was not in the handle table yet; give its handle a claim now.
        if !move.keepsClass { identity.claimForWriters(of: move.node, named: move.to) }
        if move.isExchange, let target = move.target {
            identity.claimForWriters(of: target, named: move.from)
        }
        reply.succeed()
        if let status = move.targetStatus, !move.isExchange, status.linkCount <= 1 {
            move.target?.closeBackingIfUnused()
        }
        guard !move.visits.isEmpty else { return }
        invalidateName(of: move.to)
        if move.isExchange { invalidateName(of: move.from) }
    }

    func finish(_ scope: Scope, _ move: RenameFacts) {
        if scope.isVacating { saveLifecycle.endStep(in: move.from.directory) }
        for (directory, _) in scope.directories { places.endRename(of: directory) }
    }
}
