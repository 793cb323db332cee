// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem
import Synchronization
import VersionStore

/// Handles that yielded because they had written nothing, and now write; and those that were let in beside others because they
/// only append, and now cut the file.
///
/// A program that adds to a file by one handle reads, thinks, truncates and writes. Readers that were let in between are let
/// finish for a moment, and nobody else is let in until the handle is closed. Other writes cannot be seen in time.
extension CoordinatedFilesystem {
    func renewClaim(of handle: Handle, then change: AttributeChange, reply: consuming Reply) {
        let claim = engine.makeClaimID()
        let part = ClaimRequest.Part(
            handle.node.item, AccessTable.resizing(to: 0), at: places.place(of: handle.node))
        // One that has only appended so far does something else now.
        let request = ClaimRequest(
            claim, .handle, part, accessPattern: accessPattern(of: handle).subtracting(.appends))
        switch engine.claim(request, by: handle) {
        case .granted(let grant): finishRenewal(of: handle, by: claim, grant, change, reply: reply)
        case .waiting:
            // The kernel holds the file's lock for this request, so the wait is short; and there is none for a writer, whose
            // writes need that lock.
            let isInVain = engine.isSuperseded(handle.currentClaim)
            engine.counters.parkedUnderLock.count()
            engine.journal.note(.parkedUnderLock, at: Engine.now, claim: claim, by: handle)
            let parked = Parked(reply)
            engine.onDecision(claim) { [self] decision in
                guard let reply = parked.take() else { return }
                guard case .granted(let grant) = decision, !hasEnded else { return reply.fail(.busy) }
                resumeRequest(handle.node, reply, mayBlock: true) { [self] in
                    finishRenewal(of: handle, by: claim, grant, change, reply: $0)
                }
            }
            if isInVain { return engine.force(claim) }
            engine.timers.schedule(at: (Engine.now + engine.bounds.lockwait).nanoseconds) { [engine] in
                engine.force(claim)
            }
        }
    }

    /// What others would miss after a truncation.
    private func loss(by handle: Handle, _ claim: ClaimID, _ grant: Grant) -> TruncationLoss {
        // What others left is there still, unless it has been written over.
        let isUnchanged = handle.observeWriting() == .clean
        if !isUnchanged { preserveProvisionalCopy(beside: handle) }
        let left = handle.state.withLock { $0.left.take() }
        // As long as only readers passed it, what is in the file is its own.
        let isBehind = left != nil || !isUnchanged && engine.letsWritersPass(handle.currentClaim)
        if isBehind || endangers(grant, by: claim) { return .contents(grant.preservationCause) }
        // Those that read on.
        return grant.basis == .proceeded ? .reading : .nothing
    }

    private func finishRenewal(
        of handle: Handle, by claim: ClaimID, _ grant: Grant, _ change: AttributeChange,
        reply: consuming Reply
    ) {
        let former = handle.currentClaim
        let loss = loss(by: handle, claim, grant)
        handle.state.withLock { $0.renewedClaim = claim }
        // Its file does not show it yet.
        handle.markWritten()
        engine.end(former)
        // Closed meanwhile: nobody else would end it.
        if handles[handle.id] == nil { engine.end(claim) }
        cut(handle, change, loss, reply: reply)
    }

    /// Changes the size of an open file; what others would lose by it is kept first.
    func cut(_ handle: Handle, _ change: AttributeChange, _ loss: TruncationLoss, reply: consuming Reply) {
        guard let cause = loss.cause else {
            return apply(change, to: handle.node, through: handle, reply: reply)
        }
        let parked = Parked(reply)
        work(on: handle.node, for: .preserving) { [self] in
            let step = { [self] in
                if let reply = parked.take() { apply(change, to: handle.node, through: handle, reply: reply) }
            }
            // What only grows loses nothing by that.
            if isGrowth(change, of: handle.node) { return step() }
            do throws(StoreError) {
                try preserver.preserveContents(
                    of: handle.node, because: cause, by: handle, doubting: isTimeRacy, before: step)
            } catch {
                guard case .reading = loss else { return refuse(parked) }
                engine.logAction(
                    "cut what others read, which could not be kept (\(error))", handle.attribution)
                step()
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

/// What others would lose by a truncation.
enum TruncationLoss {
    case nothing
    /// They read the file: what it held is kept if that can be.
    case reading
    /// They wrote it, and it is cut only if it can be kept.
    case contents(PreservationCause)

    var cause: PreservationCause? {
        switch self {
        case .nothing: nil
        case .reading: .claim
        case .contents(let cause): cause
        }
    }
}
