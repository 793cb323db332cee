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
        guard let place = documents.place(of: vacancy.document), place.awaited != nil else { return }
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
        adopt(vacancy.document, by: node)
        noteNames(of: node)
        let (name, parent) = node.state.withLock { ($0.name, $0.parent) }
        let move = Coordination.Move(
            from: formerPlace(of: vacancy), to: parent.map { places.place(name, in: $0) } ?? Place())
        engine.noteMove(of: vacancy.document, move, by: claimant?.identify() ?? .nobody)
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
