// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem

/// Documents that pass from file to file: by a rename, in a save, or because a file comes back.
///
/// A change is made first in the table of documents, then in the engine, and last at the nodes. A lookup in between
/// finds the state that is about to be true.
final class DocumentIdentity: Sendable {
    let context: MountContext
    let data: DataPlane
    let events: DocumentEvents
    let engine: Engine
    let nodes: NodeTable
    let handles: HandleTable
    let places: PlaceRegistry
    let sourceWatcher: SourceWatcher?
    let saves: SaveTracker
    let documents: DocumentTable

    init(
        _ context: MountContext, _ tree: FileTree, _ sourceWatch: SourceWatch, _ data: DataPlane,
        _ saves: SaveTracker, _ events: DocumentEvents
    ) {
        self.context = context
        self.data = data
        self.events = events
        engine = context.engine
        nodes = tree.nodes
        handles = tree.handles
        places = tree.places
        sourceWatcher = sourceWatch.watcher
        self.saves = saves
        documents = events.documents
    }

    /// A file was renamed over a document and is the document now.
    ///
    /// Its node gets its new name only afterwards, so the caller places its presenters.
    func takeOver(_ node: Node, from target: Node) {
        let (document, orphan) = (target.item, context.makeItem())
        become(document, node, orphan: orphan)
        nodes.renumber(target, as: orphan)
    }

    /// A file took the name of a document that was missing.
    func adopt(_ document: ItemID, by node: Node) {
        if node.kind == S_IFDIR || engine.isDirectory(document) {
            // All items in a directory are placed by its number, so it keeps the number and the document takes it.
            documents.merge(node.item, at: node, with: document)
            engine.replace(node.item, by: document, orphan: nil)
        } else {
            become(document, node, orphan: nil)
        }
        engine.placePresenters(of: node.item)
    }

    private func become(_ document: ItemID, _ node: Node, orphan: ItemID?) {
        let incoming = node.item
        documents.merge(document, at: node, with: incoming)
        engine.replace(document, by: incoming, orphan: orphan)
        nodes.renumber(node, as: document)
        events.watchWriters(of: node)
    }

    /// Handles the filling of a vacated name. Returns whether the document filled it.
    func fillName(of fill: FillOutcome, with node: Node) -> Bool {
        switch fill {
        // The document still has a file; see ``restoreDocument(_:in:with:by:_:)``.
        case .save(let pendingSave) where pendingSave.evidence == .move,
            .change(let pendingSave) where pendingSave.evidence == .move:
            return false
        case .save(let pendingSave):
            adopt(pendingSave.document, by: node)
            return true
        case .change(let pendingSave):
            // Another program's file. The document follows its former file, or stays with its name.
            guard let place = documents.place(of: pendingSave.document), place.awaited != nil else {
                return false
            }
            if let former = place.former, former.hasName {
                follow(pendingSave, to: former, by: engine.claimant(of: pendingSave.claim))
                return false
            }
            adopt(pendingSave.document, by: node)
            return true
        }
    }

    /// A file was found or made under a name. Returns whether a document waited for it there.
    func fillAwaited(
        _ name: NameBytes, in directory: Node, with node: Node, by party: () -> Party
    ) -> Bool {
        guard !documents.awaitsNothing else { return false }
        if node.kind == S_IFDIR { findAwaited(below: node, called: name, in: directory, by: party) }
        guard let document = documents.fill(name, in: directory, with: node) else { return false }
        adopt(document, by: node)
        return true
    }

    /// Finds awaited names in a directory that was found or made.
    private func findAwaited(
        below node: Node, called name: NameBytes, in directory: Node, by party: () -> Party
    ) {
        for awaited in documents.noteDirectoryFound(node, called: name, in: directory) {
            do throws(Errno) {
                let status = try node.status(of: awaited)
                let found = nodes.introduce(status, as: awaited, in: node, isLocked: false)
                foundAwaited(found, as: awaited, in: node, by: party)
                nodes.forget(found.id, lookups: 1)
            } catch {
                // The name is not there yet. Its creation or a later lookup reports it.
                continue
            }
        }
    }

    /// A file was found under a name, perhaps without a report of its creation.
    func foundAwaited(
        _ node: Node, as name: NameBytes, in directory: Node, by party: () -> Party = { .nobody }
    ) {
        if fillAwaited(name, in: directory, with: node, by: party) {
            events.noteChange(of: node, .write(.updating), by: party)
        }
    }

    /// Gives up the vacated name of a document, because its save was a move or deletion.
    func abandonName(of pendingSave: PendingSave, by claimant: (any Claimant)?) {
        guard let place = documents.place(of: pendingSave.document) else {
            return follow(pendingSave, untrackedBy: claimant)
        }
        guard place.awaited != nil else { return }
        if let former = place.former, former.hasName {
            follow(pendingSave, to: former, by: claimant)
        } else {
            documents.forgetFormer(of: pendingSave.document)
            engine.noteLoss(
                of: pendingSave.document, at: formerPlace(of: pendingSave),
                by: claimant?.identify() ?? .nobody)
        }
    }

    /// Reports the vacated name's document as moved to a node, because the step was a move.
    private func follow(_ pendingSave: PendingSave, to node: Node, by claimant: (any Claimant)?) {
        // Another file may have been given its name meanwhile.
        guard documents.resolveAwaited(pendingSave.document, at: node) else { return }
        adopt(pendingSave.document, by: node)
        events.noteNames(of: node)
        let move = Coordination.Move(from: formerPlace(of: pendingSave), to: namedPlace(of: node))
        engine.noteMove(of: pendingSave.document, move, by: claimant?.identify() ?? .nobody)
    }

    /// Does the same for a document that is not tracked. Waiting claims follow it to its former file, and presenters of
    /// the directory are told.
    private func follow(_ pendingSave: PendingSave, untrackedBy claimant: (any Claimant)?) {
        let former = nodes[NodeID(pendingSave.oldNode.rawValue)].flatMap { $0.hasName ? $0 : nil }
        if let former { adopt(pendingSave.document, by: former) }
        let from = formerPlace(of: pendingSave)
        guard engine.hasAwareClients, engine.hasInterestedPresenter(of: pendingSave.document, at: from) else {
            return
        }
        let party = claimant?.identify() ?? .nobody
        if let former {
            engine.noteMove(of: former.item, Move(from: from, to: namedPlace(of: former)), by: party)
        } else {
            engine.noteDeletion(of: pendingSave.document, at: from, by: party)
        }
    }

    private func namedPlace(of node: Node) -> Place {
        let (name, parent, _) = node.location
        return parent.map { places.place(name, in: $0) } ?? Place()
    }

    private func formerPlace(of pendingSave: PendingSave) -> Place {
        nodes[NodeID(pendingSave.directory.rawValue)].map {
            places.place(NameBytes(pendingSave.name), in: $0)
        }
            ?? Place()
    }

    /// The file of a document is gone for good: the document waits for another file under its name.
    func loseDocument(of node: Node, called change: NameChange, under claim: ClaimID?) {
        let document = node.item
        events.noteDeletion(of: node, change, under: claim)
        guard documents.isTracked(document) else { return }
        documents.vacate(document, awaiting: change.name, in: change.directory)
        let orphan = context.makeItem()
        engine.vacate(document, orphan: orphan)
        nodes.renumber(node, as: orphan)
    }

    /// Gives a node another name.
    func rename(_ node: Node, to change: NameChange, isOneOfSeveral: Bool = false) {
        node.setName(change.name, in: change.directory, isOneOfSeveral: isOneOfSeveral)
        _ = sourceWatcher?.takeFormerName(of: node)
        if !isOneOfSeveral { node.resetClass() }
        places.reconsider(node)
    }

    /// Removes a name from a node.
    func removeName(_ node: Node, _ name: NameBytes, in directory: Node, wasLast: Bool) {
        let isCalledSo = node.wasLastCalled(name, in: directory)
        if isCalledSo { node.clearName() } else { node.lostOtherName(name, in: directory) }
        if isCalledSo, !wasLast { node.takeOtherName() }
        if wasLast { nodes.retire(node) }
        if wasLast, node.kind == S_IFDIR { documents.noteDirectoryLost(node, called: name, in: directory) }
        saves.forgetFile(NodeNumber(node.id.rawValue))
    }

    /// Takes a document from its file, so that it waits for another file under its name.
    func part(_ file: Node, from name: NameBytes, in directory: Node) {
        let document = file.item
        removeName(file, name, in: directory, wasLast: false)
        documents.vacate(document, awaiting: name, in: directory)
        let orphan = context.makeItem()
        engine.vacate(document, orphan: orphan)
        nodes.renumber(file, as: orphan)
    }
}
