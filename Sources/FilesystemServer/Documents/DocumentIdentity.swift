// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization

/// Documents that pass from file to file: by a rename, in a save, or because a file comes back.
///
/// Whoever is followed is told of first in the table of documents, then in the engine, and last at the nodes:
/// who finds a document in between finds what is about to be true.
extension CoordinatedFilesystem {
    /// A file was renamed over a document and is the document now.
    ///
    /// Its node has its new name afterwards only, so its presenters are placed by whoever renames it.
    func takeOver(_ node: Node, from target: Node) {
        let (document, orphan) = (target.item, makeItem())
        become(document, node, orphan: orphan)
        nodes.renumber(target, as: orphan)
    }

    /// A file took the name of a document that was missing.
    func adopt(_ document: ItemID, by node: Node) {
        if node.kind == S_IFDIR || engine.isDirectory(document) {
            // By a directory's number everything in it says where it is; so it keeps it, and the document takes that one.
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
        watchWriters(of: node)
    }

    /// A vacated name was filled again. Returns whether by the document.
    func fillName(of fill: FillOutcome, with node: Node) -> Bool {
        switch fill {
        // The document has a file; see ``restoreDocument(_:in:with:by:_:)``.
        case .save(let pendingSave) where pendingSave.evidence == .move,
            .change(let pendingSave) where pendingSave.evidence == .move:
            return false
        case .save(let pendingSave):
            adopt(pendingSave.document, by: node)
            return true
        case .change(let pendingSave):
            // Somebody else's file. Those who follow the document go where it went, or stay with its name.
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

    /// A program has put something under the name of a presented document that it moved a moment ago. If that is a file, the program
    /// has saved the document: the document gets its name back, and the file that was moved is a backup. Returns whether it did.
    func restoreDocument(
        _ name: NameBytes, in directory: Node, with node: Node, by saver: SavingProcess?, _ caller: Caller
    )
        -> Bool
    {
        let place = NodeNumber(directory.id.rawValue)
        let moved = saves.change {
            $0.moved.resolveFill(
                name.bytes, in: place, by: saver, isFile: node.kind == S_IFREG, at: Engine.now)
        }
        // A document that others present has come from elsewhere: it stays what it is.
        guard let moved, processes.isAlive(moved.saver.process), !documents.isTracked(node.item),
            let backup = nodes[NodeID(moved.node.rawValue)], backup !== node, backup.hasName,
            engine.isPresented(backup.item)
        else { return false }
        let document = backup.item
        let (backupName, parent) = backup.state.withLock { ($0.name, $0.parent) }
        guard let parent else { return false }
        preserveBackupWrites(
            to: backup, since: moved, by: NameSubject(name, in: directory, thread: caller.thread))
        _ = fillAwaited(name, in: directory, with: node) { .nobody }
        takeOver(node, from: backup)
        engine.placePresenters(of: node.item)
        noteNames(of: node)
        let aside = NameChange(backupName, in: parent, caller: caller)
        let move = Coordination.Move(
            from: places.place(backupName, in: parent), to: places.place(name, in: directory))
        engine.noteMove(of: document, move, by: processes.currentParty(ofThread: caller.thread))
        noteCreation(of: backup, aside)
        return true
    }

    /// A directory came with whatever is in it.
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
                // It is not there, or not yet: whoever makes it or finds it tells.
                continue
            }
        }
    }

    /// A file was found under a name, and nobody may have seen who made it.
    func foundAwaited(
        _ node: Node, as name: NameBytes, in directory: Node, by party: () -> Party = { .nobody }
    ) {
        if fillAwaited(name, in: directory, with: node, by: party) {
            noteChange(of: node, .write(.updating), by: party)
        }
    }

    /// The name of a document stays empty: its save was something else.
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

    /// What looked like a save was a move.
    private func follow(_ pendingSave: PendingSave, to node: Node, by claimant: (any Claimant)?) {
        // Another file may have been given its name meanwhile.
        guard documents.resolveAwaited(pendingSave.document, at: node) else { return }
        adopt(pendingSave.document, by: node)
        noteNames(of: node)
        let move = Coordination.Move(from: formerPlace(of: pendingSave), to: namedPlace(of: node))
        engine.noteMove(of: pendingSave.document, move, by: claimant?.identify() ?? .nobody)
    }

    /// The same where nobody shows the document. Those who wait for it go where it went, and those who follow the directory hear
    /// of it.
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
        let (name, parent) = node.state.withLock { ($0.name, $0.parent) }
        return parent.map { places.place(name, in: $0) } ?? Place()
    }

    private func formerPlace(of pendingSave: PendingSave) -> Place {
        nodes[NodeID(pendingSave.directory.rawValue)].map {
            places.place(NameBytes(pendingSave.name), in: $0)
        }
            ?? Place()
    }

    /// The file of a document is gone for good: the document waits for another one under its name.
    func loseDocument(of node: Node, called change: NameChange, under claim: ClaimID?) {
        let document = node.item
        noteDeletion(of: node, change, under: claim)
        guard documents.isTracked(document) else { return }
        documents.vacate(document, awaiting: change.name, in: change.directory)
        let orphan = makeItem()
        engine.vacate(document, orphan: orphan)
        nodes.renumber(node, as: orphan)
    }
}
