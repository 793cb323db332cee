// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem
import Synchronization

/// Opens that wait: how they are granted, interrupted, retried and resumed.
extension Open {
    /// How long an interrupted thread can return to its queue position.
    private static let placeKept = TimeSpan.milliseconds(100)
    /// How often an open claims the file it has found, if that becomes another document while it waits. Each of these waits may
    /// be as long as any open's.
    private static let mostFileClaims = 3
    /// How long the retry of a thread is expected after ESTALE.
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
        // Added at once: its wait may be over already, and its name must not be taken away.
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

    /// Forces an open beyond its user's share (T2). Contents that it would destroy are preserved first, as at the end of a
    /// wait.
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

    /// Receives the engine's decision, once per claim, whether or not the thread waits.
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

    /// Opens the file, unless another file took its name while the open waited.
    func admit(_ open: PendingOpen, _ grant: Grant, reply: consuming Reply) {
        let (handle, isRetry) = (open.handle, open.isRetry)
        guard handle.isReplaced else { return finish(handle, grant, reply: reply) }
        noteStale(open, handle)
        // The kernel retries only once, and its own threads do not retry.
        guard isRetry || open.thread == 0 || ProcessInspection.isKernelThread(open.thread) else {
            return requestRetry(open, ending: open.claim, reply: reply)
        }
        // An open a moment earlier would have found the replaced file and waited for its writers. So this open waits for them
        // now: its claim was about the document, which is another file.
        if handle.node.item != handle.item, open.fileClaims < Self.mostFileClaims {
            engine.end(open.claim)
            return begin(
                handle.node, flags: handle.flags, isRetry: true, fileClaims: open.fileClaims + 1,
                reply: reply)
        }
        // The store preserves the handle's writes, because no program will find them.
        handle.becomeOrphanWriter()
        finish(handle, grant, reply: reply)
    }

    /// Has the kernel look a file up again at once, after another file has taken its name. The presenter may have just saved it
    /// for another program, and an open a moment earlier would have waited for that save.
    func retrySuccessor(_ handle: Handle, reply: consuming Reply) {
        let open = pendingOpen(handle, isRetry: true, for: reply)
        noteStale(open, handle)
        requestRetry(open, ending: nil, reply: reply)
    }

    /// Expects the retry first and ends the claim afterwards, so that the name is not taken away in between.
    ///
    /// A claim held for the retry would block the next writer. That writer may have created its name already, with the
    /// directory's lock held.
    private func requestRetry(_ open: PendingOpen, ending claim: ClaimID?, reply: consuming Reply) {
        coordinator.expectRetry(open, for: Self.retryExpected)
        let directory = open.becomeRetry()
        // Makes the kernel ask about the directory during the retry (`awaitSave`).
        if let directory { context.connection.invalidateAttributes(of: directory.id) }
        if let claim { engine.end(claim) }
        reply.fail(.stale)
    }

    private func noteStale(_ open: PendingOpen, _ handle: Handle) {
        engine.counters.stale.count()
        engine.journal.note(.stale, at: Engine.now, claim: open.claim, by: handle)
    }

    /// An interrupted open keeps its queue position for 100 ms in case the program retries.
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
        // Before the answer, after which the thread may wait again.
        expectedRetries.removeWaiting(open)
        reply.fail(end.error)
    }

    /// Continues an open after its thread has come back.
    func resume(
        _ open: PendingOpen, on node: Node, flags: Int32, isRetry: Bool, reply: consuming Reply
    ) {
        let handle = claims.makeHandle(open.claim, on: node, flags: flags, by: reply.caller)
        let (former, wasRetry) = (open.handle, open.isRetry)
        guard !wasRetry, handle.isClaimed, node.item == open.item, handle.access == former.access else {
            // This is the retry after ESTALE, or a request for something else.
            coordinator.giveUp(open)
            // The file it finds proves nothing: the document may be another file again, and the name another document's.
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
