// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem

/// Opens that a thread is expected to send again: after an interrupt, or after the answer ESTALE.
extension RetryCoordinator {
    func expectRetry(_ open: PendingOpen, for span: TimeSpan) {
        let visit = open.leave()
        expectedRetries.expect(open)
        engine.timers.schedule(at: (Engine.now + span).nanoseconds) { [self] in
            guard open.isAway(since: visit), expectedRetries.remove(open) else { return }
            giveUp(open)
        }
    }

    /// Gives up the retried open of a thread, if the thread's lookup has found no file under the name. Returns whether
    /// the thread was retrying an open.
    ///
    /// The kernel has used its only retry, so the open does not come again.
    func giveUpRetry(of thread: Int32) -> Bool {
        // An open that was interrupted, and not answered ESTALE, keeps its position in the lock queue.
        let open = expectedRetries.take(by: thread, where: \.isRetry)
        guard let open else { return false }
        giveUp(open)
        return true
    }

    /// Makes a GETATTR wait for a save, if its thread is retrying the open of a document.
    ///
    /// During the retry, the thread asks for the attributes of the document's directory, and the kernel holds no lock. If the
    /// document is missing in the middle of a save, the answer waits until the save ends. Without this wait the open would fail
    /// with ENOENT, because the kernel does not retry an open twice.
    func awaitSave(forRetryOf thread: Int32, to directory: NodeID) {
        guard let open = expectedRetries[thread], open.isRetry, retries[thread] == nil
        else { return }
        let number = NodeNumber(directory.rawValue)
        let pendingSave = saves.pendingSaves(in: number).first { $0.document == open.item }
        guard let pendingSave, saveLifecycle.isSavePending(pendingSave) else { return }
        let serial = beginRetry(
            .lookup(name: pendingSave.name, isUnlinked: false), in: directory, by: thread)
        // The save may have ended after the first check of the pending save.
        if !saves.isOpen(pendingSave) {
            completeLookupWait(serial, by: thread, in: directory)
        }
    }

    /// Whether the kernel may not cache the attributes of a directory that a look-up of this thread has found.
    ///
    /// The thread is retrying the open of a file in the directory. With cached attributes, the kernel would not send the GETATTR
    /// of ``awaitSave(forRetryOf:to:)``.
    func mustAskForAttributes(of directory: Node, _ thread: Int32) -> Bool {
        guard directory.kind == S_IFDIR, let open = expectedRetries[thread], open.isRetry else {
            return false
        }
        return open.handle.node.parent === directory
    }

    func giveUp(_ open: PendingOpen) {
        switch open.decision {
        case .granted: engine.end(open.claim)
        case nil: engine.withdraw(open.claim)
        case .refused: break
        }
    }
}
