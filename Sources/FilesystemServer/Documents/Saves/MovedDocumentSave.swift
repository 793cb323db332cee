// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import VersionStore

/// Observes presented documents that a program moved a moment ago. The move may be the first step of a save: the program then
/// puts a new file under the former name.
extension SaveLifecycle {
    /// Opens a pending save for the former name of a presented document that was moved together with its file. Look-ups of this
    /// name by other programs then wait until a file has the name, or until a moment has passed.
    func openPendingSave(ofMoved node: Node, called change: NameChange, by saver: SavingProcess) {
        let place = NodeNumber(change.directory.id.rawValue)
        let pendingSave = PendingSave(
            directory: place, name: change.name.bytes, document: node.item,
            oldNode: NodeNumber(node.id.rawValue), saver: saver, evidence: .move,
            thread: change.caller.thread, opened: Engine.now, claim: engine.makeClaimID())
        let contents = stamp(of: node)
        let forgotten: FillOutcome? = saves.change { state in
            state.moved.add(
                MovedDocuments.Entry(
                    pendingSave.name, in: place, of: pendingSave.oldNode, by: saver, at: pendingSave.opened,
                    contents: contents))
            let forgotten = state.pendingSaves.resolveFill(pendingSave.name, in: place, by: nil)
            // If there are too many pending saves, look-ups of the name do not wait. The program can complete its save without
            // this wait.
            _ = state.pendingSaves.open(pendingSave)
            return forgotten
        }
        if let forgotten { closePendingSave(forgotten.pendingSave, because: .expired) }
        watchPendingSaves()
    }

    /// Called when a program is about to use a file. For a presented document that was moved a moment ago, the use may show
    /// that the move was no step of a save:
    ///
    /// - Another program than the mover uses the file: the move was no step of a save.
    /// - The mover changes or removes the file: the move was no step of a save, because no program changes its own backup.
    /// - A presenter of the document uses the file: this shows nothing, because the presenter got an event for the move.
    func noteUse(of node: Node?, by thread: Int32, isChange: Bool = true) {
        guard let node, !saves.hasNoPendingSaves, isMovedDocument(node),
            thread <= 0 || !engine.isPresented(node.item, by: processes.currentParty(ofThread: thread))
        else { return }
        let saver = isChange || thread <= 0 ? nil : processes.saver(ofThread: thread)
        leaveMoved(node, for: saver)
    }

    /// Called when a handle is closed by which a program has written. If the file is a document that was moved a moment ago,
    /// the writes show that the move was no step of a save.
    func noteUse(by handle: Handle) {
        guard !saves.hasNoPendingSaves, handle.mayWrite, isMovedDocument(handle.node),
            cleanWriters.mayHaveWritten(handle),
            !engine.isPresented(handle.node.item, by: handle.identify())
        else { return }
        leaveMoved(handle.node, for: nil)
    }

    /// Preserves the writes of presenters to a moved document. The presenters got an event for the move, and wrote to the moved
    /// file. Then the saving program put a new file under the former name.
    ///
    /// The moved file is now a backup, and the presenters present the new file. So the presenters' writes are only in the
    /// backup. A worker copies the backup later, because copying takes time.
    func preserveBackupWrites(
        to backup: Node, since entry: MovedDocuments.Entry, by subject: any JournalSubject
    ) {
        if let contents = stamp(of: backup), let former = entry.contents, contents.hasSameContents(as: former)
        {
            return
        }
        context.work(on: backup, for: .preserving) { [preserver] in
            preserver.preserveSetAside(backup, because: .presenter, by: subject)
        }
    }

    private func stamp(of node: Node) -> Stamp? {
        do throws(Errno) { return Stamp(try node.descriptor().descriptor.status()) } catch { return nil }
    }

    private func isMovedDocument(_ node: Node) -> Bool {
        let number = NodeNumber(node.id.rawValue)
        return node.kind == S_IFREG && saves.isMoved(number)
    }

    private func leaveMoved(_ node: Node, for saver: SavingProcess?) {
        let number = NodeNumber(node.id.rawValue)
        let pendingSave = saves.change { state in
            state.moved.resolveMove(number, for: saver) ? state.pendingSaves.resolveMove(number) : nil
        }
        if let pendingSave { closePendingSave(pendingSave, because: .expired) }
    }
}
