// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem
import Synchronization

/// Handles that yielded because they had written nothing, and now write.
///
/// vim with `backupcopy=yes` opens the document for writing, makes its backup, and then truncates. Whoever
/// was let in between is let finish for a moment, and nobody else is let in until the handle is closed.
/// Other writes cannot be seen in time.
extension CoordinatedFilesystem {
    func renewClaim(of handle: Handle, then change: AttributeChange, reply: consuming Reply) {
        let claim = engine.makeClaimID()
        let request = Request(claim, .handle, Request.Part(handle.node.item, AccessTable.resizing(to: 0)))
        switch engine.claim(request, by: handle) {
        case .granted: finishRenewal(of: handle, by: claim, change, reply: reply)
        case .waiting:
            // The kernel holds the file's lock for this request, so the wait is short.
            engine.counters.parkedUnderLock.count()
            engine.journal.note(.parkedUnderLock, at: Engine.now, claim: claim, by: handle)
            let parked = Parked(reply)
            engine.whenSettled(claim) { [self] _ in
                if let reply = parked.take() { finishRenewal(of: handle, by: claim, change, reply: reply) }
            }
            engine.timers.schedule(at: (Engine.now + engine.bounds.lockwait).nanoseconds) { [engine] in
                engine.force(claim)
            }
        }
    }

    private func finishRenewal(
        of handle: Handle, by claim: ClaimID, _ change: AttributeChange, reply: consuming Reply
    ) {
        let former = handle.currentClaim
        handle.state.withLock { $0.renewed = claim }
        engine.end(former)
        // Closed meanwhile: nobody else would end it.
        if handles[handle.id] == nil { engine.end(claim) }
        apply(change, to: handle.node, through: handle, reply: reply)
    }
}
