// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem
import VersionStore

/// Makes a new claim for a handle when it truncates its file. This is done in two cases:
///
/// - The handle's claim was preempted before the handle had written anything.
/// - The handle's claim was granted beside other writers, because the handle only appends.
///
/// Some programs read a file, compute, truncate the file and write it, all through one handle. Readers that were let in
/// before the truncation may finish. After the truncation, no other claim is granted until the handle is closed.
extension SetAttributes {
    func renewClaim(of handle: Handle, then change: AttributeChange, reply: consuming Reply) {
        let claim = engine.makeClaimID()
        let part = ClaimRequest.Part(
            handle.node.item, AccessTable.resizing(to: 0), at: places.place(of: handle.node))
        // After the truncation, the handle no longer counts as one that only appends.
        var request = ClaimRequest(
            claim, .handle, part, accessPattern: data.accessPattern(of: handle).subtracting(.appends))
        if let bounds = context.bounds(forFileAt: handle.node.path, usedBy: handle.thread) {
            request.bounds = bounds
        }
        switch engine.claim(request, by: handle) {
        case .granted(let grant): finishRenewal(of: handle, by: claim, grant, change, reply: reply)
        case .waiting:
            // The kernel holds the file's lock during this request, so the wait must be short. A wait for another
            // writer would be useless, because that writer needs the same lock.
            let isInVain = engine.isSuperseded(handle.currentClaim)
            engine.counters.parkedUnderLock.count()
            engine.journal.note(.parkedUnderLock, at: Engine.now, claim: claim, by: handle)
            let parked = Parked(reply)
            engine.onDecision(claim) { [self] decision in
                guard let reply = parked.take() else { return }
                guard case .granted(let grant) = decision, !context.hasEnded else { return reply.fail(.busy) }
                context.resumeRequest(handle.node, reply, mayBlock: true) { [self] in
                    finishRenewal(of: handle, by: claim, grant, change, reply: $0)
                }
            }
            if isInVain { return engine.force(claim) }
            engine.timers.schedule(at: (Engine.now + engine.bounds.lockwait).nanoseconds) { [engine] in
                engine.force(claim)
            }
        }
    }

    /// Returns the contents that other programs would lose if the handle truncated the file now.
    private func loss(by handle: Handle, _ claim: ClaimID, _ grant: Grant) -> TruncationLoss {
        // If this handle has written nothing, the file still has the contents that other programs wrote.
        let isUnchanged = handle.observeWriting() == .clean
        if !isUnchanged { cleanWriters.preserveProvisionalCopy(beside: handle) }
        let left = handle.takeProvisionalCopy()
        // If only readers were let in before this claim, this handle's program wrote the contents itself.
        let isBehind = left != nil || !isUnchanged && engine.letsWritersPass(handle.currentClaim)
        if isBehind || cleanWriters.endangers(grant, by: claim) { return .contents(grant.preservationCause) }
        // Other programs that still have the file open only read it.
        return grant.basis == .proceeded ? .reading : .nothing
    }

    private func finishRenewal(
        of handle: Handle, by claim: ClaimID, _ grant: Grant, _ change: AttributeChange,
        reply: consuming Reply
    ) {
        let former = handle.currentClaim
        let loss = loss(by: handle, claim, grant)
        handle.renewClaim(as: claim)
        // The truncation has not changed the file's times yet. So the handle is marked as one that has written.
        handle.markWritten()
        engine.end(former)
        // If the handle was closed during the wait, no later close ends the new claim. So the claim ends here.
        if handles[handle.id] == nil { engine.end(claim) }
        cut(handle, change, loss, reply: reply)
    }

    /// Changes the size of an open file. Contents that other programs would lose are preserved first.
    func cut(_ handle: Handle, _ change: AttributeChange, _ loss: TruncationLoss, reply: consuming Reply) {
        guard let cause = loss.cause else {
            return apply(change, to: handle.node, through: handle, reply: reply)
        }
        let parked = Parked(reply)
        context.work(on: handle.node, for: .preserving) { [self] in
            let step = { [self] in
                if let reply = parked.take() { apply(change, to: handle.node, through: handle, reply: reply) }
            }
            // A change to a larger size destroys no contents.
            if isGrowth(change, of: handle.node) { return step() }
            do throws(StoreError) {
                try preserver.preserveContents(
                    of: handle.node, because: cause, by: handle, doubting: context.isTimeRacy, before: step)
            } catch {
                guard case .reading = loss else { return refuse(parked) }
                engine.logAction(
                    "truncated a file that others read; its contents could not be preserved (\(error))",
                    handle.attribution)
                step()
            }
        }
    }

    /// Refuses a truncation because the contents cannot be preserved.
    func refuse(_ parked: Parked<Reply>) { if let reply = parked.take() { reply.fail(.busy) } }

    private func isGrowth(_ change: AttributeChange, of node: Node) -> Bool {
        do throws(Errno) {
            return try change.size ?? 0 >= node.descriptor().descriptor.status().size
        } catch {
            return false
        }
    }
}

/// The contents that other programs lose if a file is truncated.
enum TruncationLoss {
    case nothing
    /// Other programs read the file. Its contents are preserved if that is possible.
    case reading
    /// Other programs have written to the file. The file is truncated only if its contents can be preserved.
    case contents(PreservationCause)

    var cause: PreservationCause? {
        switch self {
        case .nothing: nil
        case .reading: .claim
        case .contents(let cause): cause
        }
    }
}
