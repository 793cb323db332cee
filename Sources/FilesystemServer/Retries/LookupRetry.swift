// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem

/// Lookups of names that are missing in the middle of a save. The daemon answers such a lookup with ESTALE. The kernel
/// repeats the lookup when the name has a file again.
extension RetryCoordinator {
    /// Answers a lookup of a name that has no file. If the name is missing in the middle of a save, the answer waits
    /// for the end of the save.
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
        // The pending save may have ended after the previous check. In that case, no other call would end the wait of
        // this lookup.
        let isStillOpen =
            saves.isOpen(pendingSave) && saveLifecycle.isSavePending(pendingSave)
        if !isStillOpen { completeLookupWait(serial, by: thread, in: directory.id) }
        reply.fail(.stale)
    }

    /// Returns whether the kernel repeats the lookup of this thread after ESTALE (D126).
    ///
    /// The kernel repeats no lookup for a call that makes a directory, link or other item: the program would get ESTALE. So the
    /// daemon does not let such a call wait, and the new item gets the missing name.
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
