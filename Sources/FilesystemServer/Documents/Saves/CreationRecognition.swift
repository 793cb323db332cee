// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem

/// New names, in the light of the saves that may be under way.
extension SaveLifecycle {
    /// Tells the save detector about a new file. If the file fills the name of a missing document, it becomes that document.
    func recogniseCreation(
        of node: Node, as name: NameBytes, in directory: Node, by caller: Caller
    ) -> CreationOutcome {
        // No program saves a file by means of a directory. A second link of a document holds the former contents.
        let isSide = node.kind != S_IFDIR && node.otherNames.isEmpty && HelperFileName(of: name.bytes) != nil
        let party = { self.processes.currentParty(ofThread: caller.thread) }
        guard isSide || !saves.hasNoPendingSaves else {
            return CreationOutcome(
                isDocument: identity.fillAwaited(name, in: directory, with: node, by: party))
        }
        let saver = processes.saver(ofThread: caller.thread)
        let (number, place) = (NodeNumber(node.id.rawValue), NodeNumber(directory.id.rawValue))
        let fill: FillOutcome? = saves.change { state in
            if isSide, let saver {
                state.saveDetector.noteCreated(name.bytes, in: place, node: number, by: saver, at: Engine.now)
            }
            if let saver { state.noteActivity(by: saver, at: Engine.now) }
            return state.pendingSaves.resolveFill(
                name.bytes, in: place, by: saver, isFile: node.kind == S_IFREG)
        }
        if restoreDocument(name, in: directory, with: node, by: saver, caller) {
            return CreationOutcome(fill: fill, isDocument: true, isSave: true)
        }
        guard let fill, fill.pendingSave.evidence != .move else {
            let isAwaited = identity.fillAwaited(name, in: directory, with: node, by: party)
            return CreationOutcome(fill: fill, isDocument: isAwaited)
        }
        let isDocument = identity.fillName(of: fill, with: node)
        if case .save = fill { return CreationOutcome(fill: fill, isDocument: isDocument, isSave: true) }
        return CreationOutcome(fill: fill, isDocument: isDocument, isSave: isDocument)
    }

    /// Restores the name of a presented document that a program moved a moment ago, if the same program now fills the
    /// name.
    ///
    /// If the new item is a file, the program has saved the document: the document gets its name back, and the moved
    /// file is a backup. Returns whether it did.
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
        // A document that others present came from elsewhere, so it stays a document of its own.
        guard let moved, processes.isAlive(moved.saver.process), !documents.isTracked(node.item),
            let backup = nodes[NodeID(moved.node.rawValue)], backup !== node, backup.hasName,
            engine.isPresented(backup.item)
        else { return false }
        let document = backup.item
        let (backupName, parent, _) = backup.location
        guard let parent else { return false }
        preserveBackupWrites(
            to: backup, since: moved, by: NameSubject(name, in: directory, thread: caller.thread))
        _ = identity.fillAwaited(name, in: directory, with: node) { .nobody }
        identity.takeOver(node, from: backup)
        engine.placePresenters(of: node.item)
        events.noteNames(of: node)
        let aside = NameChange(backupName, in: parent, caller: caller)
        let move = Coordination.Move(
            from: places.place(backupName, in: parent), to: places.place(name, in: directory))
        engine.noteMove(of: document, move, by: processes.currentParty(ofThread: caller.thread))
        events.noteCreation(of: backup, aside)
        return true
    }
}

/// The result of the creation of a file.
struct CreationOutcome {
    /// The pending save that it ends.
    var fill: FillOutcome?
    /// Whether the file is a document that was missing.
    let isDocument: Bool
    /// Whether it is a step of a save, and not a new file.
    var isSave = false
}
