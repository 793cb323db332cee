// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem

/// Opens that their threads are expected to send again: after an interrupt, or after ESTALE.
extension RetryCoordinator {
    func expectRetry(_ open: PendingOpen, for span: TimeSpan) {
        let visit = open.leave()
        expectedRetries.expect(open)
        engine.timers.schedule(at: (Engine.now + span).nanoseconds) { [self] in
            guard open.isAway(since: visit), expectedRetries.remove(open) else { return }
            giveUp(open)
        }
    }

    /// Gives up the retried open of a thread, if the thread's lookup found no file under the name. Returns whether there
    /// was such an open.
    ///
    /// The open does not come again, because the kernel has used its only retry.
    func giveUpRetry(of thread: Int32) -> Bool {
        // An open that was only interrupted keeps its position in the lock queue.
        let open = expectedRetries.take(by: thread, where: \.isRetry)
        guard let open else { return false }
        giveUp(open)
        return true
    }

    /// Makes a GETATTR wait for a save, if its thread is retrying the open of a document.
    ///
    /// The thread asks for the attributes of the document's directory, with no lock held. If the document is missing in
    /// the middle of a save, the answer waits for the save. An answer without a wait would make the open fail, because
    /// the kernel does not retry twice.
    func awaitSave(forRetryOf thread: Int32, to directory: NodeID) {
        guard let open = expectedRetries[thread], open.isRetry, retries[thread] == nil
        else { return }
        let number = NodeNumber(directory.rawValue)
        let pendingSave = saves.pendingSaves(in: number).first { $0.document == open.item }
        guard let pendingSave, saveLifecycle.isSavePending(pendingSave) else { return }
        let serial = beginRetry(
            .lookup(name: pendingSave.name, isUnlinked: false), in: directory, by: thread)
        // A file may have taken the name since the check.
        if !saves.isOpen(pendingSave) {
            completeLookupWait(serial, by: thread, in: directory)
        }
    }

    func giveUp(_ open: PendingOpen) {
        switch open.decision {
        case .granted: engine.end(open.claim)
        case nil: engine.withdraw(open.claim)
        case .refused: break
        }
    }
}
