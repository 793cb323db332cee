// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem

/// Requests that claim without a handle, from the claim to the step.
///
/// Nearly all are granted at once. One that must wait is sent back (see ``RetryTable``), and so is a step that
/// would take a name away to which others are on their way: the kernel retries a request only once, and
/// whoever waited for one save of a document and comes back in the middle of the next could only be told that
/// it does not exist.
extension CoordinatedFilesystem {
    /// What a request does once it is granted; it ends the claim.
    typealias Step = @Sendable (ClaimedRequest, Grant, consuming Reply) -> Void

    /// How long a step waits for those on their way; they need microseconds, unless they do not run.
    private static let longestDelay = TimeSpan.milliseconds(500)
    private static let interval = TimeSpan.milliseconds(1)

    /// The request that a thread was sent back with, if this is the one that comes again.
    func takeRetriedRequest(_ kind: ClaimedRequest.Kind, by caller: Caller) -> ClaimedRequest? {
        guard !retries.isEmpty else { return nil }
        let retry = retries.takeRetry(by: caller.thread) { $0.cause.request?.mayBeRetried(as: kind) ?? false }
        guard let retry, let request = retry.cause.request else { return nil }
        guard retry.isLate || (request.isOver && !request.endsWhenDecided) else { return request }
        // Its turn is over. The kernel does not come a second time all the same.
        retries.noteRetryArrival(of: caller, at: Engine.now)
        return nil
    }

    /// Claims for a request, and takes the step when it is granted.
    func coordinate(
        _ request: ClaimedRequest, after former: ClaimedRequest?, reply: consuming Reply,
        then step: @escaping Step
    ) {
        if let former {
            // The kernel comes back only once: what is still to be waited for is waited for under its lock.
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
        // The kernel's own threads do not come back, and their next request is somebody else's.
        let canRetry = { !ProcessInspection.isKernelThread(request.thread) }
        if isNameAwaited(request) {
            guard canRetry() else { return claimUnderLock(request, reply: reply, then: step) }
            return requestRetry(request, to: directory, reply: reply) { [self] serial in
                delay(request, serial) { [self] in claimBehind(request, serial) }
            }
        }
        if let grant = claim(request) {
            // Who was let in before this is known now; nobody else is let in meanwhile.
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

    /// Nobody comes for a request's claim any more.
    func giveUp(_ request: ClaimedRequest?) {
        guard let request else { return }
        request.giveUp()
        engine.withdraw(request.claim)
    }

    /// A request ends without its step.
    func abandon(_ request: ClaimedRequest?) {
        giveUp(request)
        guard let request, case .renaming = request.kind else { return }
        for part in request.request.parts {
            if let node = nodes[part.item] { giveUpClaims(of: node) }
        }
    }

    /// Claims; the decision comes to the request, unless it is a grant at once.
    private func claim(_ request: ClaimedRequest) -> Grant? {
        guard request.beginClaiming() else { return nil }
        switch engine.claim(request.request, by: request) {
        case .granted(let grant): return grant
        case .waiting:
            engine.onDecision(request.claim) { request.decide($0) }
            return nil
        }
    }

    /// The request has come again: its step is taken if its turn came, else it waits where it is, for a
    /// moment.
    private func resume(_ request: ClaimedRequest, reply: consuming Reply, then step: @escaping Step) {
        if let grant = claim(request) { return step(request, grant, reply) }
        waitUnderLock(request, reply: reply, then: step)
    }

    private func claimUnderLock(_ request: ClaimedRequest, reply: consuming Reply, then step: @escaping Step)
    {
        if let grant = claim(request) { return step(request, grant, reply) }
        waitUnderLock(request, reply: reply, then: step)
    }

    /// The last resort: the kernel holds a lock for the request, so this wait is short and then goes ahead.
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
            guard case .granted(let grant) = decision, !hasEnded else {
                abandon(request)
                return reply.fail(.busy)
            }
            resumeRequest(request.directory, reply, mayBlock: true) { step(request, grant, $0) }
        }
    }
}

// On its way back.
extension CoordinatedFilesystem {
    /// Answers ESTALE; `wait` sees to it that the question is answered in the end.
    private func requestRetry(
        _ request: ClaimedRequest, to directory: Node, reply: consuming Reply, _ wait: (UInt64) -> Void
    ) {
        let serial = beginRetry(.request(request), in: directory.id, by: request.thread)
        recordRetry(by: request, request.claim)
        wait(serial)
        connection.invalidateAttributes(of: directory.id)
        reply.fail(.stale)
    }

    /// The delay of a step is over, and nothing was claimed yet: claims now if it might have to wait.
    private func claimBehind(_ request: ClaimedRequest, _ serial: UInt64) {
        guard engine.hasAwareClients, retries[request.thread]?.serial == serial else {
            return answer(request, serial)
        }
        if let grant = claim(request) { request.decide(.granted(grant)) }
        // It was interrupted meanwhile, and found nothing to withdraw.
        if request.isOver {
            engine.withdraw(request.claim)
            return answer(request, serial)
        }
        request.whenDecided { [self, weak request] _ in
            if let request { answer(request, serial) }
        }
    }

    /// The wait is over: the kernel's question is answered, and the request comes again or is given up.
    private func answer(_ request: ClaimedRequest, _ serial: UInt64) {
        guard let directory = request.directory else { return }
        // Held for the retry, it would keep out whoever comes first, who may have the kernel's lock for that.
        if request.endsWhenDecided { giveUp(request) }
        answerGetattr(of: serial, by: request.thread, about: directory.id)
        expire(serial, of: request.thread) { [self] in abandon(request) }
    }

    /// Goes on when nobody is on the way to the name any more that the request takes away.
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
            || expectedRetries.isExpected(at: request.request.first.item, or: mayRequestRetry)
    }
}
