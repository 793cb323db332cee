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
    }

    /// A vacated name was filled again. Returns whether by the document.
    func fillName(of fill: Fill, with node: Node) -> Bool {
        switch fill {
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
        guard let document = documents.awaiting(name, in: directory) else { return false }
        adopt(document, by: node)
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
            guard vacancy.evidence == .step, processes.isAlive(vacancy.actor.process) else { return }
            let stamp = former.presentStatus.map(Stamp.init)
            episodes.change { $0.moved.insert(MovedDocument(vacancy, as: stamp), at: Engine.now) }
            watchWindows()
        } else {
            documents.forgetFormer(of: vacancy.document)
            engine.noteLoss(
                of: vacancy.document, at: formerPlace(of: vacancy), by: claimant?.identify() ?? .nobody)
        }
    }

    /// What looked like a save was a move.
    private func follow(_ vacancy: Vacancy, to node: Node, by claimant: (any Claimant)?) {
        adopt(vacancy.document, by: node)
        noteNames(of: node)
        let move = Coordination.Move(from: formerPlace(of: vacancy), to: namedPlace(of: node))
        engine.noteMove(of: vacancy.document, move, by: claimant?.identify() ?? .nobody)
    }

    /// The same where nobody shows the document. Those who wait for it go where it went, and those who follow the directory hear
    /// of it.
    private func follow(_ vacancy: Vacancy, untrackedBy claimant: (any Claimant)?) {
        let former = nodes[NodeID(vacancy.oldNode.rawValue)].flatMap { $0.hasName ? $0 : nil }
        if let former, vacancy.evidence == .step { adopt(vacancy.document, by: former) }
        let from = formerPlace(of: vacancy)
        guard engine.isAttended, engine.isHeard(of: vacancy.document, at: from) else { return }
        let party = claimant?.identify() ?? .nobody
        if let former {
            engine.noteMove(of: former.item, Move(from: from, to: namedPlace(of: former)), by: party)
        } else {
            engine.noteDeletion(of: vacancy.document, at: from, by: party)
        }
    }

    /// A document that was taken to have moved is saved after all: the program that moved it has put a file under its name. What
    /// those who show it wrote meanwhile went into the program's backup, and is kept. Returns false if they have gone.
    func takeBack(_ moved: MovedDocument, to node: Node, as change: NameChange) -> Bool {
        let document = moved.vacancy.document
        guard let place = documents.place(of: document) else { return false }
        let from: Place
        if case .node(let former) = place {
            keepTyped(in: former, since: moved, by: change)
            from = namedPlace(of: former)
            documents.vacate(document, awaiting: change.name, in: change.directory, former: former)
            let orphan = makeItem()
            engine.vacate(document, orphan: orphan)
            nodes.renumber(former, as: orphan)
        } else {
            from = places.place(in: place.anchor)
        }
        adopt(document, by: node)
        let to = places.place(change.name, in: change.directory)
        let party = processes.currentParty(ofThread: change.caller.thread)
        engine.noteMove(of: document, Move(from: from, to: to), by: party)
        engine.journal.note(.filled, at: Engine.now, by: change.subject, "after it was told to have moved")
        return true
    }

    private func keepTyped(in former: Node, since moved: MovedDocument, by change: NameChange) {
        guard let status = former.presentStatus, let stamp = moved.stamp,
            !stamp.hasSameContents(as: Stamp(status))
        else { return }
        keeper.keepTyped(in: former, of: change.directory.path(of: change.name), by: change.subject)
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
