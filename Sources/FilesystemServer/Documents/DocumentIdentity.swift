// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem

/// Decides which file a document is, when the document passes from one file to another. This happens at a rename, in a save, or
/// when a missing file comes back.
///
/// A change is made first in the table of documents, then in the engine, and last at the nodes. A look-up during the change
/// finds the state after the change.
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

    /// Makes a file the document, because the file was renamed over the document's former file.
    ///
    /// The caller calls this function before it gives the new name to the file's node. After that, the caller tells the engine
    /// where the document's presenters are.
    func takeOver(_ node: Node, from target: Node) {
        let (document, orphan) = (target.item, context.makeItem())
        become(document, node, orphan: orphan)
        nodes.renumber(target, as: orphan)
    }

    /// Makes a file or directory the document, because it has taken the document's name while no file had the name. Returns the
    /// document's item from now on.
    @discardableResult
    func adopt(_ document: ItemID, by node: Node) -> ItemID {
        if node.kind == S_IFDIR || engine.isDirectory(document) {
            // The engine knows all items in a directory by the directory's number. So the directory keeps its number, and the
            // document takes this number.
            documents.merge(node.item, at: node, with: document)
            engine.replace(node.item, by: document, orphan: nil)
        } else {
            become(document, node, orphan: nil)
        }
        let item = node.item
        engine.placePresenters(of: item)
        return item
    }

    private func become(_ document: ItemID, _ node: Node, orphan: ItemID?) {
        let incoming = node.item
        documents.merge(document, at: node, with: incoming)
        engine.replace(document, by: incoming, orphan: orphan)
        nodes.renumber(node, as: document)
        events.watchWriters(of: node)
    }

    /// Called when an item has got a name that was missing in the middle of a save. Returns whether this item is now the
    /// document.
    func fillName(of fill: FillOutcome, with node: Node) -> Bool {
        switch fill {
        // The document was moved and still has its file, so it waits for no other file. ``restoreDocument(_:in:with:by:_:)``
        // decides about the new file.
        case .save(let pendingSave) where pendingSave.evidence == .move,
            .change(let pendingSave) where pendingSave.evidence == .move:
            return false
        case .save(let pendingSave):
            adopt(pendingSave.document, by: node)
            return true
        case .change(let pendingSave):
            // Another program's file has taken the name. If the document's former file still has a name, the former file stays
            // the document. Otherwise the new file becomes the document.
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

    /// Called when a request has made a file under a name. The kernel's lock on the directory keeps the name until the answer.
    /// Returns whether a document was waiting for a file with this name.
    func fillAwaited(
        _ name: NameBytes, in directory: Node, with node: Node, by party: () -> Party
    ) -> Bool {
        fill(name, in: directory, with: node, since: nil, by: party) ?? false
    }

    /// Called when a look-up has found a file under a name. Another program may have taken the name away after the look-up.
    /// Returns whether a document was waiting for a file with this name, and has this file now.
    func fillFound(
        _ name: NameBytes, in directory: Node, with node: Node, by party: () -> Party
    ) -> Bool {
        for _ in 0..<Self.mostLooks {
            guard let look = documents.look(at: name, in: directory), leads(name, in: directory, to: node)
            else { return false }
            if let isFilled = fill(name, in: directory, with: node, since: look, by: party) {
                return isFilled
            }
        }
        // The name changes again and again. The next look-up of the name finds its file.
        return false
    }

    /// How often a look-up reads a name again because documents wait for the name again.
    private static let mostLooks = 16

    /// Whether the name leads to the file of the node now, and not to a later file with the same inode number.
    private func leads(_ name: NameBytes, in directory: Node, to node: Node) -> Bool {
        do throws(Errno) { return nodes[FileKey(try directory.cachedStatus(of: name))] === node } catch {
            return false
        }
    }

    /// Gives a file to the document that waits for its name. Returns whether there was such a document; nil if the look-up must
    /// read the name again.
    private func fill(
        _ name: NameBytes, in directory: Node, with node: Node, since look: AwaitedLook?,
        by party: () -> Party
    ) -> Bool? {
        guard !documents.awaitsNothing else { return false }
        if node.kind == S_IFDIR {
            guard
                let next = documents.noteDirectoryFound(node, called: name, in: directory, since: look)
            else { return nil }
            for name in next { findAwaited(name, in: node, by: party) }
        }
        switch documents.fill(name, in: directory, with: node, since: look) {
        case .filled(let document):
            let item = adopt(document, by: node)
            return !takeBack(item, from: node, called: name, in: directory, by: party)
        case .notAwaited: return false
        case .outdated: return nil
        }
    }

    /// Takes a document back from a file that has lost its name while the file became the document. The request that removed the
    /// name may not have met the document at the file. Returns whether the document was taken back.
    func takeBack(
        _ document: ItemID, from node: Node, called name: NameBytes, in directory: Node, by party: () -> Party
    ) -> Bool {
        guard !node.hasName, documents.vacate(document, at: node, awaiting: name, in: directory) else {
            return false
        }
        detach(document, from: node)
        // A file may have got the name before the document began to wait for the name.
        findAwaited(name, in: directory, by: party)
        return true
    }

    /// Gives the item of a document's former file another number, and moves the holders of the file to this number.
    private func detach(_ document: ItemID, from node: Node) {
        let orphan = context.makeItem()
        engine.vacate(document, orphan: orphan)
        nodes.renumber(node, as: orphan)
    }

    /// Looks for a name for which a document waits. The name may have got a file without an event.
    private func findAwaited(_ awaited: NameBytes, in directory: Node, by party: () -> Party) {
        do throws(Errno) {
            let status = try directory.status(of: awaited)
            let found = nodes.introduce(status, as: awaited, in: directory, isLocked: false)
            foundAwaited(found, as: awaited, in: directory, by: party)
            nodes.forget(found.id, lookups: 1)
        } catch {
            // The name does not exist yet. When a file gets the name, or a later look-up finds it, the document gets the file.
            return
        }
    }

    /// Called when a file was found under a name; the file may have been made without an event.
    func foundAwaited(
        _ node: Node, as name: NameBytes, in directory: Node, by party: () -> Party = { .nobody }
    ) {
        if fillFound(name, in: directory, with: node, by: party) {
            events.noteChange(of: node, .write(.updating), by: party)
        }
    }

    /// Ends the wait for a document's missing name, because the supposed save has turned out to be a move or a deletion.
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

    /// Makes `node` the document that has lost its name, and sends an event for a move: the supposed save was a move.
    private func follow(_ pendingSave: PendingSave, to node: Node, by claimant: (any Claimant)?) {
        // Another file may have taken the name before this call, and may be the document now. In this case this
        // function does nothing.
        guard documents.resolveAwaited(pendingSave.document, at: node) else { return }
        let item = adopt(pendingSave.document, by: node)
        events.noteNames(of: node)
        let party = claimant?.identify() ?? .nobody
        let move = Coordination.Move(from: formerPlace(of: pendingSave), to: namedPlace(of: node))
        engine.noteMove(of: pendingSave.document, move, by: party)
        let (name, parent, _) = node.location
        guard let parent, takeBack(item, from: node, called: name, in: parent, by: { .nobody }),
            documents.awaiting(name, in: parent) == item
        else { return }
        engine.noteLoss(of: item, at: places.place(name, in: parent), by: party)
    }

    /// Ends a pending save of a document that is not tracked, because the supposed save was a move or a deletion. If
    /// the file that had the missing name has another name now, this file becomes the document again, and waiting
    /// claims follow the file. Presenters of the directory get an event for a move, or for a deletion if the file has
    /// no name.
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

    /// Called when a document's file was deleted. The document now waits for another file with its name.
    func loseDocument(of node: Node, called change: NameChange, under claim: ClaimID?) {
        let document = node.item
        events.noteDeletion(of: node, change, under: claim)
        guard documents.vacate(document, at: node, awaiting: change.name, in: change.directory) else {
            return
        }
        detach(document, from: node)
    }

    /// Sets the name of a node after its file was renamed.
    func rename(_ node: Node, to change: NameChange, isOneOfSeveral: Bool = false) {
        node.setName(change.name, in: change.directory, isOneOfSeveral: isOneOfSeveral)
        _ = sourceWatcher?.takeFormerName(of: node)
        if !isOneOfSeveral { node.resetClass() }
        places.reconsider(node)
    }

    /// Removes a name from a node after the name was removed from the file.
    func removeName(_ node: Node, _ name: NameBytes, in directory: Node, wasLast: Bool) {
        let isCalledSo = node.wasLastCalled(name, in: directory)
        if isCalledSo { node.clearName() } else { node.lostOtherName(name, in: directory) }
        if isCalledSo, !wasLast { node.takeOtherName() }
        if wasLast { nodes.retire(node) }
        if wasLast, node.kind == S_IFDIR { documents.noteDirectoryLost(node, called: name, in: directory) }
        saves.forgetFile(NodeNumber(node.id.rawValue))
    }

    /// Separates a document from its file. From now on the document waits for another file with its name.
    func part(_ file: Node, from name: NameBytes, in directory: Node) {
        let document = file.item
        removeName(file, name, in: directory, wasLast: false)
        documents.vacate(document, at: file, awaiting: name, in: directory)
        detach(document, from: file)
    }
}
