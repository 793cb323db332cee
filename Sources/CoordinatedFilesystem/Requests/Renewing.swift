// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem
import Synchronization
import VersionStore

/// Handles that yielded because they had written nothing, and now write.
///
/// vim with `backupcopy=yes` opens the document for writing, makes its backup, and then truncates. Whoever
/// was let in between is let finish for a moment, and nobody else is let in until the handle is closed.
/// Other writes cannot be seen in time.
extension CoordinatedFilesystem {
    func renewClaim(of handle: Handle, then change: AttributeChange, reply: consuming Reply) {
        let claim = engine.makeClaimID()
        let part = Request.Part(
            handle.node.item, AccessTable.resizing(to: 0), at: places.place(of: handle.node))
        let request = Request(claim, .handle, part)
        switch engine.claim(request, by: handle) {
        case .granted(let grant): finishRenewal(of: handle, by: claim, grant, change, reply: reply)
        case .waiting:
            // The kernel holds the file's lock for this request, so the wait is short.
            engine.counters.parkedUnderLock.count()
            engine.journal.note(.parkedUnderLock, at: Engine.now, claim: claim, by: handle)
            let parked = Parked(reply)
            engine.whenSettled(claim) { [self] decision in
                guard let reply = parked.take() else { return }
                guard case .granted(let grant) = decision, !hasEnded else { return reply.fail(.busy) }
                goOn(handle.node, reply, mayBlock: true) { [self] in
                    finishRenewal(of: handle, by: claim, grant, change, reply: $0)
                }
            }
            engine.timers.schedule(at: (Engine.now + engine.bounds.lockwait).nanoseconds) { [engine] in
                engine.force(claim)
            }
        }
    }

    private func finishRenewal(
        of handle: Handle, by claim: ClaimID, _ grant: Grant, _ change: AttributeChange,
        reply: consuming Reply
    ) {
        let former = handle.currentClaim
        handle.state.withLock { $0.renewed = claim }
        engine.end(former)
        // Closed meanwhile: nobody else would end it.
        if handles[handle.id] == nil { engine.end(claim) }
        cut(handle, change, keeping: endangers(grant) ? grant.keepCause : nil, reply: reply)
    }

    /// Changes the size of an open file; if there is a cause, what somebody else would lose by it is kept
    /// first.
    func cut(
        _ handle: Handle, _ change: AttributeChange, keeping cause: KeepCause?, reply: consuming Reply
    ) {
        guard let cause else { return apply(change, to: handle.node, through: handle, reply: reply) }
        let parked = Parked(reply)
        work(on: handle.node, for: .keeping) { [self] in
            let step = { [self] in
                if let reply = parked.take() { apply(change, to: handle.node, through: handle, reply: reply) }
            }
            // What only grows loses nothing by that.
            if isGrowth(change, of: handle.node) { return step() }
            do throws(StoreError) {
                try keeper.keepContents(
                    of: handle.node, because: cause, by: handle, doubting: isBlurred, before: step)
            } catch {
                refuse(parked)
            }
        }
    }

    /// What would be lost cannot be kept.
    func refuse(_ parked: Parked<Reply>) { if let reply = parked.take() { reply.fail(.busy) } }

    private func isGrowth(_ change: AttributeChange, of node: Node) -> Bool {
        do throws(Errno) {
            return try change.size ?? 0 >= node.descriptor().descriptor.status().size
        } catch {
            return false
        }
    }
}
