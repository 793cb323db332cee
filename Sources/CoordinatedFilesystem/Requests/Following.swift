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
            documents.settle(node.item, at: node, with: document)
            engine.replace(node.item, by: document, orphan: nil)
        } else {
            become(document, node, orphan: nil)
        }
        engine.placePresenters(of: node.item)
    }

    private func become(_ document: ItemID, _ node: Node, orphan: ItemID?) {
        let incoming = node.item
        documents.settle(document, at: node, with: incoming)
        engine.replace(document, by: incoming, orphan: orphan)
        nodes.renumber(node, as: document)
        watchWriters(of: node)
    }

    /// A vacated name was filled again. Returns whether by the document.
    func fillName(of fill: Fill, with node: Node) -> Bool {
        switch fill {
        // The document has a file; see ``takeBack(_:in:with:by:_:)``.
        case .save(let vacancy) where vacancy.evidence == .move,
            .change(let vacancy) where vacancy.evidence == .move:
            return false
        case .save(let vacancy):
            adopt(vacancy.document, by: node)
            return true
        case .change(let vacancy):
            // Somebody else's file. Those who follow the document go where it went, or stay with its name.
            guard let place = documents.place(of: vacancy.document), place.awaited != nil else {
                return false
            }
            if let former = place.former, former.hasName {
                follow(vacancy, to: former, by: engine.claimant(of: vacancy.claim))
                return false
            }
            adopt(vacancy.document, by: node)
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
    func takeBack(_ name: NameBytes, in directory: Node, with node: Node, by actor: Actor?, _ caller: Caller)
        -> Bool
    {
        let place = NodeNumber(directory.id.rawValue)
        let moved = episodes.change {
            $0.moved.fills(name.bytes, in: place, by: actor, isFile: node.kind == S_IFREG, at: Engine.now)
        }
        // A document that others present has come from elsewhere: it stays what it is.
        guard let moved, processes.isAlive(moved.actor.process), !documents.isTracked(node.item),
            let backup = nodes[NodeID(moved.node.rawValue)], backup !== node, backup.hasName,
            engine.isPresented(backup.item)
        else { return false }
        let document = backup.item
        let (backupName, parent) = backup.state.withLock { ($0.name, $0.parent) }
        guard let parent else { return false }
        keepWritten(to: backup, since: moved, by: NameSubject(name, in: directory, thread: caller.thread))
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
        for awaited in documents.found(node, called: name, in: directory) {
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
    func abandonName(of vacancy: Vacancy, by claimant: (any Claimant)?) {
        guard let place = documents.place(of: vacancy.document) else {
            return follow(vacancy, untrackedBy: claimant)
        }
        guard place.awaited != nil else { return }
        if let former = place.former, former.hasName {
            follow(vacancy, to: former, by: claimant)
        } else {
            documents.forgetFormer(of: vacancy.document)
            engine.noteLoss(
                of: vacancy.document, at: formerPlace(of: vacancy), by: claimant?.identify() ?? .nobody)
        }
    }

    /// What looked like a save was a move.
    private func follow(_ vacancy: Vacancy, to node: Node, by claimant: (any Claimant)?) {
        // Another file may have been given its name meanwhile.
        guard documents.settleAwaited(vacancy.document, at: node) else { return }
        adopt(vacancy.document, by: node)
        noteNames(of: node)
        let move = Coordination.Move(from: formerPlace(of: vacancy), to: namedPlace(of: node))
        engine.noteMove(of: vacancy.document, move, by: claimant?.identify() ?? .nobody)
    }

    /// The same where nobody shows the document. Those who wait for it go where it went, and those who follow the directory hear
    /// of it.
    private func follow(_ vacancy: Vacancy, untrackedBy claimant: (any Claimant)?) {
        let former = nodes[NodeID(vacancy.oldNode.rawValue)].flatMap { $0.hasName ? $0 : nil }
        if let former { adopt(vacancy.document, by: former) }
        let from = formerPlace(of: vacancy)
        guard engine.isAttended, engine.isHeard(of: vacancy.document, at: from) else { return }
        let party = claimant?.identify() ?? .nobody
        if let former {
            engine.noteMove(of: former.item, Move(from: from, to: namedPlace(of: former)), by: party)
        } else {
            engine.noteDeletion(of: vacancy.document, at: from, by: party)
        }
    }

    private func namedPlace(of node: Node) -> Place {
        let (name, parent) = node.state.withLock { ($0.name, $0.parent) }
        return parent.map { places.place(name, in: $0) } ?? Place()
    }

    private func formerPlace(of vacancy: Vacancy) -> Place {
        nodes[NodeID(vacancy.directory.rawValue)].map { places.place(NameBytes(vacancy.name), in: $0) }
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
