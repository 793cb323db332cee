// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem

/// Opens that are expected to come again: after an interrupt, or after ESTALE.
extension RetryCoordinator {
    func expectRetry(_ open: PendingOpen, for span: TimeSpan) {
        let visit = open.leave()
        expectedRetries.expect(open)
        engine.timers.schedule(at: (Engine.now + span).nanoseconds) { [self] in
            guard open.isAway(since: visit), expectedRetries.remove(open) else { return }
            giveUp(open)
        }
    }

    /// Gives up the retried open of a thread that found no file under a name. Returns whether there was such an open: it does
    /// not come, because the kernel has used its only retry.
    func giveUpRetry(of thread: Int32) -> Bool {
        // An interrupted open keeps its queue position.
        let open = expectedRetries.take(by: thread, where: \.isRetry)
        guard let open else { return false }
        giveUp(open)
        return true
    }

    /// A thread that retries the open of a document asks about its directory, with no lock held. If the document is missing in
    /// the middle of a save, the answer waits for the save: the kernel does not retry again.
    func awaitSave(forRetryOf thread: Int32, to directory: NodeID) {
        guard let open = expectedRetries[thread], open.isRetry, retries[thread] == nil
        else { return }
        let number = NodeNumber(directory.rawValue)
        let pendingSave = saves.pendingSaves(in: number).first { $0.document == open.item }
        guard let pendingSave, saveLifecycle.isSavePending(pendingSave) else { return }
        let serial = beginRetry(
            .lookup(name: pendingSave.name, isUnlinked: false), in: directory, by: thread)
        // The name may have been filled since.
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
