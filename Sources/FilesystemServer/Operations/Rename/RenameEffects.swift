// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem

/// Carries out the effects of a rename on nodes, open files and pending saves. ``DocumentRename`` carries out its
/// effects on documents.
final class RenameEffects: Sendable {
    /// The data that are needed at the end of a rename.
    struct Scope {
        /// Whether the rename makes a document's name missing in the middle of a save.
        let isVacating: Bool
        /// The directories that are moved, with the old names by which presenters still know them.
        let directories: [(Node, former: NodeName)]
    }

    private let context: MountContext
    private let sourceWatch: SourceWatch
    private let cleanWriters: CleanWriters
    private let conflictCopies: ConflictCopies
    private let merger: SaveMerger
    private let events: DocumentEvents
    private let identity: DocumentIdentity
    private let saveLifecycle: SaveLifecycle
    private let closer: HandleCloser
    private let engine: Engine
    private let connection: Connection
    private let places: PlaceRegistry
    private let nodes: NodeTable
    private let saves: SaveTracker
    private let documents: DocumentRename

    init(
        _ context: MountContext, _ tree: FileTree, _ sourceWatch: SourceWatch, _ saves: SaveTracker,
        _ cleanWriters: CleanWriters, _ conflictCopies: ConflictCopies,
        _ merger: SaveMerger, _ events: DocumentEvents,
        _ identity: DocumentIdentity, _ saveLifecycle: SaveLifecycle, _ closer: HandleCloser
    ) {
        self.merger = merger
        self.context = context
        self.sourceWatch = sourceWatch
        self.cleanWriters = cleanWriters
        self.conflictCopies = conflictCopies
        self.events = events
        self.identity = identity
        self.saveLifecycle = saveLifecycle
        self.closer = closer
        engine = context.engine
        connection = context.connection
        places = tree.places
        nodes = tree.nodes
        self.saves = saves
        documents = DocumentRename(context, tree, saves, events, identity, saveLifecycle)
    }

    func prepare(_ move: RenameFacts) {
        let node = move.node
        closer.closeLingering(on: node)
        if let target = move.target { closer.closeLingering(on: target) }
        if let target = move.target, target.kind == S_IFDIR, !move.isExchange {
            events.submitDeferredDeletions(in: target)
        }
        noteUseOfFiles(in: move, by: move.from.caller.thread)
        // A log or database with several names keeps its item class under each new name. Other files may become
        // documents, and their writers then get claims.
        if node !== move.target, !move.keepsClass { identity.claimForWriters(of: node, named: move.to) }
        if move.isExchange, let target = move.target {
            identity.claimForWriters(of: target, named: move.from)
        }
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

    func revert(_ move: RenameFacts) {
        if !move.isExchange { move.target?.cancelOrphan() }
        for node in [move.node, move.target].compactMap(\.self) { identity.giveUpClaims(of: node) }
        move.node.renames.end()
    }

    func publish(_ move: RenameFacts, _ step: NameStep?) {
        engine.journal.note(.renamed, at: Engine.now, by: move.from.subject, "to \(move.to.name)")
        if move.status.isRegularFile, !move.isExchange { saveLifecycle.noteDeparture(of: move.from) }
        saveLifecycle.noteArrival(of: move.to.name, in: move.to.directory, by: move.to.caller.thread)
        cleanWriters.refreshBaselines(of: move.node)
        if let target = move.target { cleanWriters.refreshBaselines(of: target) }
        documents.publish(move, step?.save, under: step?.claim)
        moveVersions(move, step?.save)
        if move.node.kind == S_IFDIR || move.isExchange, context.policies.hasClassRules {
            nodes.resetClasses()
        }
        if move.target == nil, move.status.isRegularFile {
            step?.passage?.end()
            merger.noteArrival(
                of: move.node, as: move.to.name, in: move.to.directory, by: move.from.caller.thread
            ) { [events, node = move.node] in events.noteMerge(of: node) }
        }
        if !(step?.save?.keepsName ?? false) { noteInHistory(move) }
        move.node.renames.end()
        guard move.status.isRegularFile else { return }
        conflictCopies.noteChange(of: move.from.name, in: move.from.directory)
        conflictCopies.noteChange(of: move.to.name, in: move.to.directory)
    }

    /// Lets the versions of a document follow the document, if the rename is no step of a save.
    private func moveVersions(_ move: RenameFacts, _ save: SaveAssessment?) {
        guard move.target !== move.node, !(save?.keepsName ?? false) else { return }
        guard move.isExchange else {
            return context.noteVersionMove(
                from: move.from, to: move.to, isDirectory: move.status.isDirectory)
        }
        // Two files exchange their contents, and each document keeps its name (D20).
        let areFiles = move.status.isRegularFile && move.targetStatus?.isRegularFile ?? false
        if !areFiles { context.noteVersionExchange(move.from, move.to) }
    }

    private func noteInHistory(_ move: RenameFacts) {
        guard context.history.isRecording, move.target !== move.node else { return }
        let author = context.processes.author(ofThread: move.from.caller.thread)
        if let replaced = move.targetStatus, replaced.isRegularFile, !move.status.isRegularFile,
            !move.isExchange
        {
            // A symbolic link or another special file takes the document's name, so there is no document any more.
            context.history.note(.removed(.lastKnown(replaced)), move.to, by: author)
        }
        let areFiles = move.status.isRegularFile && move.targetStatus?.isRegularFile ?? true
        let step: HistoryStep.Kind =
            move.isExchange && areFiles
            ? .exchanged(with: move.to.name, in: move.to.directory)
            : .renamed(
                to: move.to.name, in: move.to.directory, replaces: areFiles && move.targetStatus != nil)
        context.history.note(step, move.from, by: author)
    }

    /// Answers the request. Then invalidates names in the kernel's cache that are wrong after the rename.
    func answer(_ move: RenameFacts, reply: consuming Reply) {
        // A file that was being opened during this rename was not in the handle table yet. Its handle gets a claim now.
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

    /// Returns the directories that a rename moves, with the names by which presenters know them.
    private func directoriesRenamed(by move: RenameFacts) -> [(Node, former: NodeName)] {
        guard engine.hasAwareClients else { return [] }
        var found: [(Node, former: NodeName)] = []
        if move.node.kind == S_IFDIR { found.append((move.node, move.from.known)) }
        if move.isExchange, let target = move.target, target.kind == S_IFDIR {
            found.append((target, move.to.known))
        }
        return found
    }

    /// Invalidates a name in the kernel's cache. The kernel has looked up another node under this name before.
    private func invalidateName(of change: NameChange) {
        context.work(on: change.directory, for: .fileObservation) { [self] in
            change.name.withName { connection.invalidateEntry($0, in: change.directory.id) }
        }
    }

    /// Notes that a program uses both files of a rename. If the rename gives a file its former name back, that file is
    /// left out.
    private func noteUseOfFiles(in move: RenameFacts, by thread: Int32) {
        guard !saves.hasNoPendingSaves else { return }
        let (number, place) = (NodeNumber(move.node.id.rawValue), NodeNumber(move.to.directory.id.rawValue))
        let isReturn = saves.isReturn(of: number, to: move.to.name.bytes, in: place)
        if !isReturn || move.isExchange { saveLifecycle.noteUse(of: move.node, by: thread) }
        saveLifecycle.noteUse(of: move.target, by: thread)
    }
}
