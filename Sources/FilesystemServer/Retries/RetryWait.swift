// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem

/// The parts that are common to all retries: the waiting GETATTR, its interrupts, and the end of the wait.
extension RetryCoordinator {
    /// After the GETATTR of a retry is answered, the request must come again within this time. Otherwise it is late.
    private static let retryExpected = TimeSpan.seconds(1)
    /// How long a late retry is remembered. A thread that has not run in this time will probably not repeat its
    /// request.
    private static let lateRetryExpected = TimeSpan.seconds(4)
    /// How long the kernel may take to give up a request after its lookup has found no file.
    private static let lastLook = TimeSpan.milliseconds(250)

    /// Notes that a thread's request is answered ESTALE. Returns a number for this retry.
    func beginRetry(_ cause: RetryTable.RetryReason, in directory: NodeID, by thread: Int32) -> UInt64 {
        let (serial, former) = retries.begin(cause, in: directory, by: thread)
        giveUp(former?.cause.request)
        return serial
    }

    func recordRetry(by subject: any JournalSubject, _ claim: ClaimID? = nil) {
        engine.counters.retried.count()
        engine.journal.note(.retried, at: Engine.now, claim: claim, by: subject)
    }

    /// Parks a GETATTR if it is part of a retry that must wait. Otherwise returns the reply.
    func parkGetattr(_ reply: consuming Reply, about id: NodeID) -> Reply? {
        let thread = reply.caller.thread
        guard retries.awaitsGetattr(of: thread, about: id) else { return reply }
        let token = parkedRequests.makeToken()
        reply.tellInterrupts(token)
        parkedRequests.enter(
            token,
            ParkedRequests.ParkedRequest(thread: thread) { [self] way in
                switch way {
                case .abandoned(let end): abandonGetattr(of: thread, end)
                case .forced: endWait(of: thread) { engine.force($0) }
                case .overdue: endWait(of: thread) { engine.endWait(of: $0) }
                }
            })
        let rest = retries.hold(reply, about: id, token: token)
        guard rest == nil else {
            parkedRequests.leave(token)
            return rest
        }
        // A signal may have come while the GETATTR was not parked yet.
        parkedRequests.checkSignalsOnce(token)
        if let retry = retries[thread], retry.mayHoldLock, ProcessInspection.mayCreateFile(thread: thread) {
            engine.timers.schedule(at: (Engine.now + engine.bounds.lockwait).nanoseconds) { [self] in
                releaseGetattr(of: retry.serial, by: thread, about: id)
            }
        }
        if parkedRequests.isClosed { abandonGetattr(of: thread, .unmounted) }
        return nil
    }

    /// Ends the wait of a retry: answers its GETATTR, so that the kernel sends the request again.
    func answerGetattr(of serial: UInt64, by thread: Int32, about id: NodeID) {
        guard let getattr = retries.completeWait(serial, by: thread)?.take() else { return }
        parkedRequests.leave(getattr.token)
        context.resumeRequest(nodes[id], getattr.reply) { [self] in
            shownAttributes.answerAttributes(of: id, valid: .none, reply: $0)
        }
    }

    /// Answers a GETATTR although the wait of its retry goes on, because the kernel may hold the directory's lock
    /// during the GETATTR.
    private func releaseGetattr(of serial: UInt64, by thread: Int32, about id: NodeID) {
        guard let getattr = retries.release(serial, by: thread)?.take() else { return }
        parkedRequests.leave(getattr.token)
        context.resumeRequest(nodes[id], getattr.reply) { [self] in
            shownAttributes.answerAttributes(of: id, valid: .none, reply: $0)
        }
    }

    /// Calls `finish` if the request of a retry does not come again in time. Some seconds later, forgets the retry.
    ///
    /// In these seconds the retry counts as late: its thread may not have run yet. If the thread's request then comes
    /// and must wait, it must not be answered ESTALE a second time.
    func expire(_ serial: UInt64, of thread: Int32, then finish: @escaping @Sendable () -> Void) {
        let late = Engine.now + Self.retryExpected
        engine.timers.schedule(at: late.nanoseconds) { [self] in
            guard retries.noteLate(serial, by: thread) else { return }
            finish()
            engine.timers.schedule(at: (late + Self.lateRetryExpected).nanoseconds) { [self] in
                _ = retries.drop(serial, by: thread)
            }
        }
    }

    /// Forgets a retry after a moment, because its request will probably not come again.
    func forget(_ serial: UInt64, of thread: Int32) {
        engine.timers.schedule(at: (Engine.now + Self.lastLook).nanoseconds) { [self] in
            _ = retries.drop(serial, by: thread)
        }
    }

    private func abandonGetattr(of thread: Int32, _ end: ParkedRequests.AbandonReason) {
        guard let (retry, getattr) = retries.abandon(by: thread) else { return }
        abandon(retry.cause.request)
        if end != .unmounted { engine.counters.interrupted.count() }
        guard let getattr = getattr.take() else { return }
        parkedRequests.leave(getattr.token)
        getattr.reply.fail(end.error)
    }

    private func endWait(of thread: Int32, by end: (ClaimID) -> Void) {
        guard let retry = retries[thread] else { return }
        if let request = retry.cause.request, request.isWaiting { return end(request.claim) }
        answerGetattr(of: retry.serial, by: thread, about: retry.directory)
    }
}
