// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem

/// Requests that claim without a handle, from the claim to the step.
///
/// Nearly all are granted at once. Two kinds are answered ESTALE (see ``RetryTable``):
///
/// - Requests with a claim that must wait.
/// - Steps that would take away a name that other threads are about to look up again. The kernel retries a request only once. A
///   thread that waited for a save could then only be told that the document does not exist, if the next save has begun.
extension RetryCoordinator {
    /// The step of a granted request; it ends the claim.
    typealias Step = @Sendable (ClaimedRequest, Grant, consuming Reply) -> Void

    /// How long a step waits for threads that retry a lookup; they need microseconds, unless they do not run.
    private static let longestDelay = TimeSpan.milliseconds(500)
    private static let interval = TimeSpan.milliseconds(1)

    /// The earlier request of a thread, if this request is its retry.
    func takeRetriedRequest(_ kind: ClaimedRequest.Kind, by caller: Caller) -> ClaimedRequest? {
        guard !retries.isEmpty else { return nil }
        let retry = retries.takeRetry(by: caller.thread) { $0.cause.request?.mayBeRetried(as: kind) ?? false }
        guard let retry, let request = retry.cause.request else { return nil }
        guard retry.isLate || (request.isOver && !request.endsWhenDecided) else { return request }
        // Its claim has ended. The kernel nevertheless does not retry again.
        retries.noteRetryArrival(of: caller, at: Engine.now)
        return nil
    }

    /// Claims for a request, and takes the step when the claim is granted.
    func coordinate(
        _ request: ClaimedRequest, after former: ClaimedRequest?, reply: consuming Reply,
        then step: @escaping Step
    ) {
        if let former {
            // The kernel retries only once, so a further wait happens under its lock.
            if !former.endsWhenDecided, former.hasSameItems(as: request) {
                return resume(former, reply: reply, then: step)
            }
            giveUp(former)
            return claimUnderLock(request, reply: reply, then: step)
        }
        guard request.thread > 0, !retries.takeRetryMark(request.thread, at: Engine.now),
            let directory = request.directory
        else {
            return claimUnderLock(request, reply: reply, then: step)
        }
        // The kernel's own threads do not retry, and their next request belongs to another program.
        let canRetry = { !ProcessInspection.isKernelThread(request.thread) }
        if isNameAwaited(request) {
            guard canRetry() else { return claimUnderLock(request, reply: reply, then: step) }
            return requestRetry(request, to: directory, reply: reply) { [self] serial in
                delay(request, serial) { [self] in claimBehind(request, serial) }
            }
        }
        if let grant = claim(request) {
            // Opens that were granted before this claim are known now; no further open is granted while it is held.
            guard isNameAwaited(request), canRetry() else { return step(request, grant, reply) }
            request.decide(.granted(grant))
            return requestRetry(request, to: directory, reply: reply) { [self] serial in
                delay(request, serial) { [self] in answer(request, serial) }
            }
        }
        guard canRetry() else { return waitUnderLock(request, reply: reply, then: step) }
        requestRetry(request, to: directory, reply: reply) { [self] serial in
            request.whenDecided { [self] _ in
                delay(request, serial) { [self] in answer(request, serial) }
            }
        }
    }

    /// Withdraws the claim of a request that does not come back.
    func giveUp(_ request: ClaimedRequest?) {
        guard let request else { return }
        request.giveUp()
        engine.withdraw(request.claim)
    }

    /// Ends a request without its step.
    func abandon(_ request: ClaimedRequest?) {
        giveUp(request)
        guard let request, case .renaming = request.kind else { return }
        for part in request.request.parts {
            if let node = nodes[part.item] { identity.giveUpClaims(of: node) }
        }
    }

    /// Claims; a decision that is not a grant at once is passed to the request.
    private func claim(_ request: ClaimedRequest) -> Grant? {
        guard request.beginClaiming() else { return nil }
        switch engine.claim(request.request, by: request) {
        case .granted(let grant): return grant
        case .waiting:
            engine.onDecision(request.claim) { request.decide($0) }
            return nil
        }
    }

    /// Continues a retried request: takes its step if its claim is granted, or else waits briefly under the lock.
    private func resume(_ request: ClaimedRequest, reply: consuming Reply, then step: @escaping Step) {
        if let grant = claim(request) { return step(request, grant, reply) }
        waitUnderLock(request, reply: reply, then: step)
    }

    private func claimUnderLock(_ request: ClaimedRequest, reply: consuming Reply, then step: @escaping Step)
    {
        if let grant = claim(request) { return step(request, grant, reply) }
        waitUnderLock(request, reply: reply, then: step)
    }

    /// The last resort: the kernel holds a lock for the request, so this wait is short, and then the claim is forced.
    private func waitUnderLock(_ request: ClaimedRequest, reply: consuming Reply, then step: @escaping Step) {
        if request.isWaiting {
            engine.counters.parkedUnderLock.count()
            engine.journal.note(.parkedUnderLock, at: Engine.now, claim: request.claim, by: request)
            engine.timers.schedule(at: (Engine.now + engine.bounds.lockwait).nanoseconds) { [engine] in
                engine.force(request.claim)
            }
        }
        let parked = Parked(reply)
        request.whenDecided { [self] decision in
            guard let reply = parked.take() else { return }
            guard case .granted(let grant) = decision, !context.hasEnded else {
                abandon(request)
                return reply.fail(.busy)
            }
            context.resumeRequest(request.directory, reply, mayBlock: true) { step(request, grant, $0) }
        }
    }
}

// The wait between ESTALE and the retry.
extension RetryCoordinator {
    /// Answers ESTALE; `wait` makes sure that the parked GETATTR is answered in the end.
    private func requestRetry(
        _ request: ClaimedRequest, to directory: Node, reply: consuming Reply, _ wait: (UInt64) -> Void
    ) {
        let serial = beginRetry(.request(request), in: directory.id, by: request.thread)
        recordRetry(by: request, request.claim)
        wait(serial)
        connection.invalidateAttributes(of: directory.id)
        reply.fail(.stale)
    }

    /// Claims after the delay of a step, if the claim might have to wait.
    private func claimBehind(_ request: ClaimedRequest, _ serial: UInt64) {
        guard engine.hasAwareClients, retries[request.thread]?.serial == serial else {
            return answer(request, serial)
        }
        if let grant = claim(request) { request.decide(.granted(grant)) }
        // The request was interrupted before there was a claim to withdraw.
        if request.isOver {
            engine.withdraw(request.claim)
            return answer(request, serial)
        }
        request.whenDecided { [self, weak request] _ in
            if let request { answer(request, serial) }
        }
    }

    /// Ends the wait: answers the kernel's GETATTR, so that the request comes again or is given up.
    private func answer(_ request: ClaimedRequest, _ serial: UInt64) {
        guard let directory = request.directory else { return }
        // A claim held for the retry would block an earlier request, which may hold the kernel's lock that the retry needs.
        if request.endsWhenDecided { giveUp(request) }
        answerGetattr(of: serial, by: request.thread, about: directory.id)
        expire(serial, of: request.thread) { [self] in abandon(request) }
    }

    /// Continues when no thread is about to look up the name that the request takes away.
    private func delay(_ request: ClaimedRequest, _ serial: UInt64, then next: @escaping @Sendable () -> Void)
    {
        pollDelay(request, serial, until: Engine.now + Self.longestDelay, then: next)
    }

    private func pollDelay(
        _ request: ClaimedRequest, _ serial: UInt64, until end: Instant,
        then next: @escaping @Sendable () -> Void
    ) {
        guard isNameAwaited(request), Engine.now < end, retries[request.thread]?.serial == serial else {
            return next()
        }
        engine.timers.schedule(at: (Engine.now + Self.interval).nanoseconds) { [self] in
            pollDelay(request, serial, until: end, then: next)
        }
    }

    private func isNameAwaited(_ request: ClaimedRequest) -> Bool {
        guard let change = request.vacated else { return false }
        return retries.isLookupRetrying(to: change.name.bytes, in: change.directory.id)
            || expectedRetries.isExpected(at: request.request.first.item) { $0.mayRequestRetry(in: engine) }
    }
}
