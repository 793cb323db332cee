// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import VersionStore

/// Presented documents that a program has moved a moment ago, perhaps to save them under the former name.
extension SaveLifecycle {
    /// Opens the pending save of a presented document that was moved with its file. Other programs wait for the name
    /// until the program fills it or a moment has passed.
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
            // If there are too many, no lookup waits for the name; it can be filled all the same.
            _ = state.pendingSaves.open(pendingSave)
            return forgotten
        }
        if let forgotten { closePendingSave(forgotten.pendingSave, because: .expired) }
        watchPendingSaves()
    }

    /// Notes that a program is about to use a file. A presented document that was moved a moment ago then stays where
    /// it is, if:
    /// - another program than the mover uses it, or
    /// - the mover changes it or takes it away, because no program changes its backup.
    ///
    /// Its own presenters' use decides nothing, because they were told of the move.
    func noteUse(of node: Node?, by thread: Int32, isChange: Bool = true) {
        guard let node, !saves.hasNoPendingSaves, isMovedDocument(node),
            thread <= 0 || !engine.isPresented(node.item, by: processes.currentParty(ofThread: thread))
        else { return }
        let saver = isChange || thread <= 0 ? nil : processes.saver(ofThread: thread)
        leaveMoved(node, for: saver)
    }

    /// Does the same for the writes of a handle that closes.
    func noteUse(by handle: Handle) {
        guard !saves.hasNoPendingSaves, handle.mayWrite, isMovedDocument(handle.node),
            cleanWriters.mayHaveWritten(handle),
            !engine.isPresented(handle.node.item, by: handle.identify())
        else { return }
        leaveMoved(handle.node, for: nil)
    }

    /// Preserves what presenters wrote to a file after they were told that the document moved there.
    ///
    /// They present the document under its former name again, so their writes would stay in the backup. The copy runs
    /// later on a worker, because it takes time.
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
