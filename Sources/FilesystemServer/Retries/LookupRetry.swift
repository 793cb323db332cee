// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem

/// Lookups of names that are missing in the middle of a save. They are answered ESTALE, and come again when the name is filled.
extension RetryCoordinator {
    /// Answers a lookup of a missing name: at once, or when its pending save closes.
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
        // The pending save may have closed since the check; no other code would then answer the lookup.
        let isStillOpen =
            saves.isOpen(pendingSave) && saveLifecycle.isSavePending(pendingSave)
        if !isStillOpen { completeLookupWait(serial, by: thread, in: directory.id) }
        reply.fail(.stale)
    }

    /// Whether the kernel repeats the lookup after ESTALE (D126).
    ///
    /// Not for a call that makes an item other than a file: ESTALE is an error to its program, and the new item fills
    /// the name.
    private func canRetry(_ thread: Int32) -> Bool { ProcessInspection.isMakingName(thread: thread) != true }

    func completeLookupWait(_ serial: UInt64, by thread: Int32, in directory: NodeID) {
        answerGetattr(of: serial, by: thread, about: directory)
        expire(serial, of: thread) {}
    }

    /// Ends the waits of the lookups of a name that is filled or given up.
    func completeLookupWaits(for name: [UInt8], in directory: NodeID) {
        for (thread, serial) in retries.lookups(of: name, in: directory) {
            completeLookupWait(serial, by: thread, in: directory)
        }
    }
}
