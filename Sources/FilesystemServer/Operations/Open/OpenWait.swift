// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem
import Synchronization

/// Treats opens that wait: when they are granted, interrupted, retried or resumed.
extension Open {
    /// How long an interrupted thread may take to send the open again, with the same position in the lock queue.
    private static let placeKept = TimeSpan.milliseconds(100)
    /// The most claims that an open makes for files that it has found, if each of these files becomes another document
    /// during the wait. Each wait may be as long as that of any open.
    private static let mostFileClaims = 3
    /// How long the retry of an open is expected after ESTALE.
    private static let retryExpected = TimeSpan.seconds(1)

    private var engine: Engine { context.engine }
    private var parkedRequests: ParkedRequests { coordinator.parkedRequests }
    private var expectedRetries: ExpectedRetries<PendingOpen> { coordinator.expectedRetries }

    func pendingOpen(
        _ handle: Handle, isRetry: Bool, fileClaims: Int = 0, for reply: borrowing Reply
    ) -> PendingOpen {
        PendingOpen(
            handle, by: reply.caller.user, token: parkedRequests.makeToken(), isRetry: isRetry,
            fileClaims: fileClaims)
    }

    func park(_ handle: Handle, isRetry: Bool, fileClaims: Int, reply: consuming Reply) {
        let open = pendingOpen(handle, isRetry: isRetry, fileClaims: fileClaims, for: reply)
        // Added before it is parked: the claim may be granted already, and a removal of the name must find this open (D93).
        expectedRetries.addWaiting(open)
        if handle.node.detectDatabase() {
            expectedRetries.removeWaiting(open)
            return finish(claims.unclaimed(handle), nil, reply: reply)
        }
        reply.tellInterrupts(open.token)
        let parked = Parked(reply)
        open.park(parked)
        parkOpen(open)
        lockPoller.scheduleLockPoll(on: handle.node)
        engine.onDecision(open.claim) { [self] decision in endOpenWait(open, decision) }
        forceBeyondShare(open)
        // The kernel reports a signal only once, and may have done so while the request waited for something else.
        if fileClaims > 0 { parkedRequests.checkSignalsOnce(open.token) }
        if parkedRequests.isClosed { abandon(open, .unmounted) }
    }

    private func parkOpen(_ open: PendingOpen) {
        expectedRetries.addWaiting(open)
        parkedRequests.enter(
            open.token,
            ParkedRequests.ParkedRequest(thread: open.thread, user: open.user) { [self] way in
                switch way {
                case .abandoned(let end): abandon(open, end)
                case .forced: engine.force(open.claim)
                case .overdue: engine.endWait(of: open.claim)
                }
            })
    }

    /// Forces an open if its user has more waiting opens than are allowed (rule T2: a forced claim is granted at once).
    /// Contents that the open would destroy are preserved first, as at the end of a wait.
    private func forceBeyondShare(_ open: PendingOpen) {
        guard parkedRequests.isOverShare(open.user) else { return }
        engine.force(open.claim)
        guard let more = crowdLines.note(open.user, at: Engine.now) else { return }
        let handle = open.handle
        engine.workers.run { [engine] in
            engine.logAction(
                "went ahead: too many opens of user \(open.user) wait already\(more)", handle.attribution)
        }
    }

    /// Takes the engine's decision about the claim of an open, which comes once, whether or not the open's thread waits
    /// then.
    private func endOpenWait(_ open: PendingOpen, _ decision: Engine.Decision) {
        guard let reply = open.decide(decision)?.take() else { return }
        let handle = open.handle
        context.resumeRequest(
            handle.node, reply, mayBlock: opener.mayBlock(handle)
        ) {
            [self] reply in conclude(open, decision, reply: reply)
        }
    }

    private func conclude(_ open: PendingOpen, _ decision: Engine.Decision, reply: consuming Reply) {
        parkedRequests.leave(open.token)
        defer { expectedRetries.removeWaiting(open) }
        switch decision {
        case .granted where context.hasEnded: reply.fail(.notConnected)
        case .granted(let grant): admit(open, grant, reply: reply)
        case .refused(.withdrawn, _): reply.fail(.interrupted)
        case .refused: reply.fail(.busy)
        }
    }

    /// Opens the file of an open that was granted, unless another file took the file's name during the wait.
    func admit(_ open: PendingOpen, _ grant: Grant, reply: consuming Reply) {
        let (handle, isRetry) = (open.handle, open.isRetry)
        guard handle.isReplaced else { return finish(handle, grant, reply: reply) }
        noteStale(open, handle)
        // The kernel retries an open only once. The kernel's own threads do not retry an open at all.
        guard isRetry || open.thread == 0 || ProcessInspection.isKernelThread(open.thread) else {
            return requestRetry(open, ending: open.claim, reply: reply)
        }
        // The claim was for the document, which now has another file. An open a moment earlier would have found the
        // replaced file and waited for the file's writers. So this open waits for these writers now.
        if handle.node.item != handle.item, open.fileClaims < Self.mostFileClaims {
            engine.end(open.claim)
            return begin(
                handle.node, flags: handle.flags, isRetry: true, fileClaims: open.fileClaims + 1,
                reply: reply)
        }
        // The writes of the handle are preserved in the store, because no program can find the file any more.
        handle.becomeOrphanWriter()
        finish(handle, grant, reply: reply)
    }

    /// Answers ESTALE to an open of a file, because another file has taken the name just now. The kernel then looks the
    /// name up again.
    ///
    /// The presenter may have just saved the document for another program. An open a moment earlier would have waited for
    /// that save.
    func retrySuccessor(_ handle: Handle, reply: consuming Reply) {
        let open = pendingOpen(handle, isRetry: true, for: reply)
        noteStale(open, handle)
        requestRetry(open, ending: nil, reply: reply)
    }

    /// Answers an open with ESTALE. The retry is expected before the claim ends, so that no program takes the name away
    /// in between.
    ///
    /// If the claim was held for the retry, it would block the next writer. That writer may have created the file of its
    /// name already, while the kernel holds the directory's lock.
    private func requestRetry(_ open: PendingOpen, ending claim: ClaimID?, reply: consuming Reply) {
        coordinator.expectRetry(open, for: Self.retryExpected)
        let directory = open.becomeRetry()
        // The kernel then asks for the directory's attributes during the retry (`awaitSave`).
        if let directory { context.connection.invalidateAttributes(of: directory.id) }
        if let claim { engine.end(claim) }
        reply.fail(.stale)
    }

    private func noteStale(_ open: PendingOpen, _ handle: Handle) {
        engine.counters.stale.count()
        engine.journal.note(.stale, at: Engine.now, claim: open.claim, by: handle)
    }

    /// Ends the wait of an open with an error. An interrupted open keeps its position in the lock queue for 100 ms, in
    /// case the program sends it again.
    private func abandon(_ open: PendingOpen, _ end: ParkedRequests.AbandonReason) {
        guard let reply = open.takeReply()?.take() else { return }
        parkedRequests.leave(open.token)
        if end != .unmounted {
            engine.counters.interrupted.count()
            engine.journal.note(
                .interrupted, at: Engine.now, claim: open.claim, by: open.handle)
        }
        if end == .interrupted, open.thread != 0 {
            coordinator.expectRetry(open, for: Self.placeKept)
        } else {
            engine.withdraw(open.claim)
        }
        // The open is removed before the answer, because the thread may wait again after the answer.
        expectedRetries.removeWaiting(open)
        reply.fail(end.error)
    }

    /// Continues an open that its thread has sent again.
    func resume(
        _ open: PendingOpen, on node: Node, flags: Int32, isRetry: Bool, reply: consuming Reply
    ) {
        let handle = claims.makeHandle(open.claim, on: node, flags: flags, by: reply.caller)
        let (former, wasRetry) = (open.handle, open.isRetry)
        guard !wasRetry, handle.isClaimed, node.item == open.item, handle.access == former.access else {
            // The request is the retry after ESTALE, or an open of another file.
            coordinator.giveUp(open)
            // The claim is given up even if the file is the same: another file may be the document by now, and the name
            // may be another document's.
            return begin(node, flags: flags, isRetry: wasRetry || isRetry, reply: reply)
        }
        if former.locksFile { handle.expectLock() }
        engine.replaceClaimant(of: open.claim, by: handle)
        let token = open.token
        reply.tellInterrupts(token)
        let parked = Parked(reply)
        parkOpen(open)
        let decision = open.resume(handle, with: parked)
        if let decision, let reply = parked.take() { conclude(open, decision, reply: reply) }
        // A signal may have come before the request was parked.
        if decision == nil { parkedRequests.interrupted(token) }
        if parkedRequests.isClosed { abandon(open, .unmounted) }
    }
}
