// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem
import Synchronization

/// Handles the opens that wait: when the claim is granted, when a signal comes, and when the thread sends the open
/// again.
extension Open {
    /// How long an interrupted open keeps its position in the lock queue, in case its thread sends it again.
    private static let placeKept = TimeSpan.milliseconds(100)
    /// The file that an open has found may be replaced during the wait. The open then makes a new claim for its file,
    /// and may wait as long as before. This is the most claims that it makes.
    private static let mostFileClaims = 3
    /// After ESTALE, the open must come again within this time.
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
        // The open is added before it is parked. Its claim may be granted at any moment, and a removal of the name must
        // find the open (D93).
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
        // The kernel reports only the first signal of a request, and the request may have got it during an earlier
        // wait.
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

    /// If a user has more waiting opens than are allowed, forces an open of this user: its claim is granted without a
    /// wait (rule T2). Contents that the open would destroy are preserved, as at the end of a wait.
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

    /// Called once, when the engine has decided about the claim of an open. At that time, the thread of the open may be
    /// waiting or away.
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

    /// Called when the claim of a waiting open was granted. Opens the file, unless its name got another file during the
    /// wait.
    func admit(_ open: PendingOpen, _ grant: Grant, reply: consuming Reply) {
        let (handle, isRetry) = (open.handle, open.isRetry)
        guard handle.isReplaced else { return finish(handle, grant, reply: reply) }
        noteStale(open, handle)
        // ESTALE helps only if the kernel then sends the open again. The kernel does so only once for an open, and
        // never for its own threads.
        guard isRetry || open.thread == 0 || ProcessInspection.isKernelThread(open.thread) else {
            return requestRetry(open, ending: open.claim, reply: reply)
        }
        // The claim was for the document, which now has another file. So the open has not waited for the writers of the
        // file that it found. A new claim waits for them.
        if handle.node.item != handle.item, open.fileClaims < Self.mostFileClaims {
            engine.end(open.claim)
            return begin(
                handle.node, flags: handle.flags, isRetry: true, fileClaims: open.fileClaims + 1,
                reply: reply)
        }
        // No program can find this file any more. So data that are written through this handle are preserved in the
        // store.
        handle.becomeOrphanWriter()
        finish(handle, grant, reply: reply)
    }

    /// Answers ESTALE to an open, because its name has just got another file. The kernel then looks the name up a
    /// second time.
    ///
    /// A presenter may have saved the document because of another program's access. An open that came a moment earlier
    /// would have waited for this save. So this open must get the new file.
    func retrySuccessor(_ handle: Handle, reply: consuming Reply) {
        let open = pendingOpen(handle, isRetry: true, for: reply)
        noteStale(open, handle)
        requestRetry(open, ending: nil, reply: reply)
    }

    /// Answers an open with ESTALE, and ends its claim. The retry is noted before the claim ends, so that no program
    /// takes the name away in between.
    ///
    /// The claim is not held until the retry. Otherwise the next writer would wait for it, possibly with a kernel lock
    /// on the directory, which the retry needs.
    private func requestRetry(_ open: PendingOpen, ending claim: ClaimID?, reply: consuming Reply) {
        coordinator.expectRetry(open, for: Self.retryExpected)
        let directory = open.becomeRetry()
        // Because the directory's cached attributes are invalidated, the kernel asks for them during the retry. See
        // `awaitSave`.
        if let directory { context.connection.invalidateAttributes(of: directory.id) }
        if let claim { engine.end(claim) }
        reply.fail(.stale)
    }

    private func noteStale(_ open: PendingOpen, _ handle: Handle) {
        engine.counters.stale.count()
        engine.journal.note(.stale, at: Engine.now, claim: open.claim, by: handle)
    }

    /// Ends the wait of an open with an error. After a signal, the open keeps its position in the lock queue for 100
    /// ms, because the program may send it again.
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
        // The open is removed before the answer. After the answer, the open's thread may begin to wait with its next
        // open.
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
            // This request is the retry after ESTALE, or an open of another file than before.
            coordinator.giveUp(open)
            // The old claim ends even if the file is the same as before, because file and document may no longer belong
            // together.
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
        // A signal may have come while the request was not parked yet.
        if decision == nil { parkedRequests.interrupted(token) }
        if parkedRequests.isClosed { abandon(open, .unmounted) }
    }
}
