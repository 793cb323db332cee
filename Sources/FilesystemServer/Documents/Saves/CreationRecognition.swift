// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem

/// Decides whether a new file or name ends a save that a program has begun.
extension SaveLifecycle {
    /// Notes a new file in the save detector. If the file has the name of a missing document, the file becomes that document.
    func recogniseCreation(
        of node: Node, as name: NameBytes, in directory: Node, by caller: Caller
    ) -> CreationOutcome {
        // A new directory is never a step of a save. Neither is a second link of a document, because it leads to the former
        // contents.
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
        // If the pending save is not of the document that waits for this name, that document gets the file.
        let isDocument =
            identity.fillName(of: fill, with: node)
            || identity.fillAwaited(name, in: directory, with: node, by: party)
        if case .save = fill { return CreationOutcome(fill: fill, isDocument: isDocument, isSave: true) }
        return CreationOutcome(fill: fill, isDocument: isDocument, isSave: isDocument)
    }

    /// Gives a presented document its former name back, if the program that moved the document now puts a new file under this
    /// name.
    ///
    /// In this case the program has saved the document: the new file becomes the document, and the moved file is a backup.
    /// Returns whether the document got its former name back. Returns false if the new item is no regular file.
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
        // A tracked document may itself have been moved to this name. It then stays its own document, and does not become the
        // document that had the name before.
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
        context.noteVersionReturn(from: aside, to: NameChange(name, in: directory, caller: caller))
        let move = Coordination.Move(
            from: places.place(backupName, in: parent), to: places.place(name, in: directory))
        engine.noteMove(of: document, move, by: processes.currentParty(ofThread: caller.thread))
        events.noteCreation(of: backup, aside)
        return true
    }
}

/// The result of a new name for the saves that programs have begun: whether a save has ended, and whether the item is a
/// document.
struct CreationOutcome {
    /// The pending save of the name, which ends with the creation; nil if there was none.
    var fill: FillOutcome?
    /// Whether the new item is now a document whose name was missing.
    let isDocument: Bool
    /// Whether the creation is a step of a save. If so, presenters get no event for a new file.
    var isSave = false
}
