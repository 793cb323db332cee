// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization

/// Opens that wait: how they are granted, interrupted, sent back and resumed.
extension CoordinatedFilesystem {
    /// How long a thread that was interrupted finds its place in the queue again.
    private static let placeKept = TimeSpan.milliseconds(100)
    /// How often an open claims the file that it has found, in case that becomes another document while it waits: each time it
    /// may wait as long as any open.
    private static let mostFileClaims = 3
    /// How long a thread that was sent back by ESTALE is expected.
    private static let retryExpected = TimeSpan.seconds(1)

    func parkOpen(_ open: PendingOpen) {
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

    /// One that waits beyond its user's share goes ahead (T2): what it would go over is kept first, as when its time had run out.
    func forceBeyondShare(_ open: PendingOpen) {
        guard parkedRequests.isOverShare(open.user) else { return }
        engine.force(open.claim)
        guard let more = crowdLines.withLock({ $0.note(open.user, at: Engine.now) }) else { return }
        let handle = open.state.withLock { $0.handle }
        engine.workers.run { [engine] in
            engine.logAction(
                "went ahead: too many opens of user \(open.user) wait already\(more)", handle.attribution)
        }
    }

    /// The engine's decision, told once per claim, whether or not the thread is there.
    func endOpenWait(_ open: PendingOpen, _ decision: Engine.Decision) {
        let reply: Parked<Reply>? = open.state.withLock { state in
            state.decision = decision
            return state.reply.take()
        }
        guard let reply = reply?.take() else { return }
        let handle = open.state.withLock { $0.handle }
        resumeRequest(handle.node, reply, mayBlock: handle.truncates || !isPassthrough(handle.node)) {
            [self] reply in conclude(open, decision, reply: reply)
        }
    }

    private func conclude(_ open: PendingOpen, _ decision: Engine.Decision, reply: consuming Reply) {
        parkedRequests.leave(open.token)
        defer { expectedRetries.removeWaiting(open) }
        switch decision {
        case .granted where hasEnded: reply.fail(.notConnected)
        case .granted(let grant): admit(open, grant, reply: reply)
        case .refused(.withdrawn, _): reply.fail(.interrupted)
        case .refused: reply.fail(.busy)
        }
    }

    /// Opens the file, unless another one has taken its name while the open waited.
    func admit(_ open: PendingOpen, _ grant: Grant, reply: consuming Reply) {
        let (handle, isRetry) = open.state.withLock { ($0.handle, $0.isRetry) }
        guard handle.isReplaced else { return finishOpen(handle, grant: grant, reply: reply) }
        noteStale(open, handle)
        // The kernel comes back only once, and its own threads do not come back at all.
        guard isRetry || open.thread == 0 || ProcessInspection.isKernelThread(open.thread) else {
            return requestRetry(open, ending: open.claim, reply: reply)
        }
        // Opening the replaced file is what a moment earlier would have given. Then the open would have waited for those who
        // have that file, and so it does now: the claim was about the document, which is another file.
        if handle.node.item != handle.item, open.fileClaims < Self.mostFileClaims {
            engine.end(open.claim)
            return beginOpen(
                handle.node, flags: handle.flags, isRetry: true, fileClaims: open.fileClaims + 1,
                reply: reply)
        }
        // The store keeps what the handle writes, because no program will find it.
        handle.state.withLock { $0.writesToOrphan = true }
        finishOpen(handle, grant: grant, reply: reply)
    }

    /// Whether an open has been let in and is about to be answered: its thread will be sent away if its file is the document no
    /// longer by then.
    func mayRequestRetry(_ open: PendingOpen) -> Bool {
        open.thread != 0 && !open.state.withLock { $0.isRetry } && engine.isGranted(open.claim)
    }

    /// Has the kernel look again at once for a file that has lost its name to another one: who shows the document may have
    /// saved it for somebody else just now, and whoever came a moment earlier would have waited for that.
    func retrySuccessor(_ handle: Handle, reply: consuming Reply) {
        let open = PendingOpen(
            handle, by: reply.caller.user, token: parkedRequests.makeToken(), isRetry: true)
        noteStale(open, handle)
        requestRetry(open, ending: nil, reply: reply)
    }

    /// The claim ends: held for the retry, it would keep the next writer out of a name it has made already, with the
    /// directory's lock taken. In this order the name is not taken away in between.
    private func requestRetry(_ open: PendingOpen, ending claim: ClaimID?, reply: consuming Reply) {
        expectRetry(open, for: Self.retryExpected)
        let directory: Node? = open.state.withLock { state in
            state.isRetry = true
            return state.handle.node.parent
        }
        // So that the kernel asks about the directory on its way back (`awaitSave`).
        if let directory { connection.invalidateAttributes(of: directory.id) }
        if let claim { engine.end(claim) }
        reply.fail(.stale)
    }

    private func noteStale(_ open: PendingOpen, _ handle: Handle) {
        engine.counters.stale.count()
        engine.journal.note(.stale, at: Engine.now, claim: open.claim, by: handle)
    }

    /// Who was interrupted gets its place back if it asks again at once.
    func abandon(_ open: PendingOpen, _ end: ParkedRequests.AbandonReason) {
        guard let reply = open.state.withLock({ $0.reply.take() })?.take() else { return }
        parkedRequests.leave(open.token)
        if end != .unmounted {
            engine.counters.interrupted.count()
            engine.journal.note(
                .interrupted, at: Engine.now, claim: open.claim, by: open.state.withLock { $0.handle })
        }
        if end == .interrupted, open.thread != 0 {
            expectRetry(open, for: Self.placeKept)
        } else {
            engine.withdraw(open.claim)
        }
        // Before the answer, after which the thread may wait again.
        expectedRetries.removeWaiting(open)
        reply.fail(end.error)
    }

    private func expectRetry(_ open: PendingOpen, for span: TimeSpan) {
        let visit = open.state.withLock { state in
            state.visit += 1
            return state.visit
        }
        expectedRetries.expect(open)
        engine.timers.schedule(at: (Engine.now + span).nanoseconds) { [self] in
            guard open.state.withLock({ $0.visit }) == visit, expectedRetries.remove(open) else { return }
            giveUp(open)
        }
    }

    /// A thread has found nothing under a name. Returns whether it was sent back to open something, which it does not come to: the
    /// kernel has used its one retry.
    func giveUpRetry(of thread: Int32) -> Bool {
        // One that was interrupted keeps its place.
        let open = expectedRetries.take(by: thread) { open in open.state.withLock { $0.isRetry } }
        guard let open else { return false }
        giveUp(open)
        return true
    }

    /// A thread that was sent back to open a document asks about its directory, with no lock held. If the document is just missing
    /// in the middle of a save, the question waits for that: the thread cannot be sent back again.
    func awaitSave(forRetryOf thread: Int32, to directory: NodeID) {
        guard let open = expectedRetries[thread], open.state.withLock({ $0.isRetry }), retries[thread] == nil
        else { return }
        let number = NodeNumber(directory.rawValue)
        let pendingSave = saves.state.withLock { state in
            state.pendingSaves.pendingSaves(in: number, for: nil).first { $0.document == open.item }
        }
        guard let pendingSave, isSavePending(pendingSave) else { return }
        let serial = beginRetry(
            .lookup(name: pendingSave.name, isUnlinked: false), in: directory, by: thread)
        // It may have been filled since.
        if !saves.state.withLock({ $0.pendingSaves.isOpen(pendingSave) }) {
            completeLookupWait(serial, by: thread, in: directory)
        }
    }

    private func giveUp(_ open: PendingOpen) {
        switch open.state.withLock({ $0.decision }) {
        case .granted: engine.end(open.claim)
        case nil: engine.withdraw(open.claim)
        case .refused: break
        }
    }

    /// A thread that was sent away is back.
    func resume(
        _ open: PendingOpen, on node: Node, flags: Int32, isRetry: Bool, reply: consuming Reply
    ) {
        let handle = makeHandle(open.claim, on: node, flags: flags, by: reply.caller)
        let (former, wasRetry) = open.state.withLock { ($0.handle, $0.isRetry) }
        guard !wasRetry, handle.isClaimed, node.item == open.item, handle.access == former.access else {
            // The retry after ESTALE, or something else than what the thread waited for.
            giveUp(open)
            // Which file it finds says nothing: the document may be another one again, under a name that is another's by now.
            return beginOpen(node, flags: flags, isRetry: wasRetry || isRetry, reply: reply)
        }
        let isLocking = former.state.withLock { $0.locksFile }
        if isLocking { handle.state.withLock { $0.locksFile = true } }
        engine.replaceClaimant(of: open.claim, by: handle)
        let token = open.token
        reply.tellInterrupts(token)
        let parked = Parked(reply)
        parkOpen(open)
        let decision: Engine.Decision? = open.state.withLock { state in
            state.visit += 1
            state.handle = handle
            if state.decision == nil { state.reply = parked }
            return state.decision
        }
        if let decision, let reply = parked.take() { conclude(open, decision, reply: reply) }
        // A signal may have come before there was a request for it to end.
        if decision == nil { parkedRequests.interrupted(token) }
        if parkedRequests.isClosed { abandon(open, .unmounted) }
    }
}
