// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem

/// Lookups of names that are missing in the middle of a save. Such a lookup is answered ESTALE. The kernel retries it
/// when the name has a file again.
extension RetryCoordinator {
    /// Answers a lookup of a name that has no file: at once, or after the pending save of the name has ended.
    func answerMissing(_ name: NameBytes, in directory: Node, reply: consuming Reply) {
        let thread = reply.caller.thread
        guard thread > 0 else { return reply.fail(.noEntry) }
        let saver = processes.saver(ofThread: thread)
        let number = NodeNumber(directory.id.rawValue)
        let pendingSave = saves.change { state in
            if let saver { state.noteActivity(by: saver, at: Engine.now) }
            return state.pendingSaves.pendingSave(of: name.bytes, in: number, for: saver)
        }
        guard let pendingSave, pendingSave.audience == .users, saveLifecycle.isSavePending(pendingSave),
            !ProcessInspection.isKernelThread(thread), canRetry(thread)
        else { return reply.fail(.noEntry) }
        let isUnlinked = nodes[NodeID(pendingSave.oldNode.rawValue)]?.hasName != true
        let serial = beginRetry(
            .lookup(name: name.bytes, isUnlinked: isUnlinked), in: directory.id, by: thread)
        recordRetry(by: NameSubject(name, in: directory, thread: thread))
        connection.invalidateAttributes(of: directory.id)
        // The pending save may have ended since the check. Then no other call would end the wait of this lookup.
        let isStillOpen =
            saves.isOpen(pendingSave) && saveLifecycle.isSavePending(pendingSave)
        if !isStillOpen { completeLookupWait(serial, by: thread, in: directory.id) }
        reply.fail(.stale)
    }

    /// Returns whether the kernel retries the lookup of this thread after ESTALE (D126).
    ///
    /// The kernel does not retry a call that makes a directory, link or other item: its program would see ESTALE as an
    /// error. So such a call does not wait, and the new item takes the name.
    private func canRetry(_ thread: Int32) -> Bool { ProcessInspection.isMakingName(thread: thread) != true }

    func completeLookupWait(_ serial: UInt64, by thread: Int32, in directory: NodeID) {
        answerGetattr(of: serial, by: thread, about: directory)
        expire(serial, of: thread) {}
    }

    /// Ends the waits of all lookups of a name, because the name has a file again or its pending save was given up.
    func completeLookupWaits(for name: [UInt8], in directory: NodeID) {
        for (thread, serial) in retries.lookups(of: name, in: directory) {
            completeLookupWait(serial, by: thread, in: directory)
        }
    }
}
