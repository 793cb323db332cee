// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem

/// Requests for which a claim is made without a handle, from the claim to the operation that the claim permits (the
/// step).
///
/// Nearly all claims are granted without a wait. In three cases the daemon answers the request with ESTALE (see
/// ``RetryTable``):
///
/// - The claim must wait.
/// - The step takes away a name that other threads are about to look up for the second time, after a save. The kernel
///   does not look the name up a third time. So the step waits for these lookups, because otherwise their programs
///   would see no file.
/// - The document is just being merged, or a merge is possible only after a program has closed a file (``MergePause``).
extension RetryCoordinator {
    /// A function that carries out a request with a granted claim, and then ends the claim.
    typealias Step = @Sendable (ClaimedRequest, Grant, consuming Reply) -> Void

    /// How long a step waits at most for threads that look up its name. A thread that runs without a pause looks up the
    /// name within microseconds.
    private static let longestDelay = TimeSpan.milliseconds(500)
    private static let interval = TimeSpan.milliseconds(1)
    /// How long a step waits at most while the kernel holds a lock for its request.
    private static let longestMoment = TimeSpan.milliseconds(20)

    /// If the present request is the retry of an earlier request of its thread, returns that earlier request.
    func takeRetriedRequest(_ kind: ClaimedRequest.Kind, by caller: Caller) -> ClaimedRequest? {
        guard !retries.isEmpty else { return nil }
        let retry = retries.takeRetry(by: caller.thread) { $0.cause.request?.mayBeRetried(as: kind) ?? false }
        guard let retry, let request = retry.cause.request else { return nil }
        guard retry.isLate || (request.isOver && !request.endsWhenDecided) else { return request }
        // The earlier request's claim has ended. But the present request is a retry nevertheless, so the kernel does
        // not send it another time.
        retries.noteRetryArrival(of: caller, at: Engine.now)
        return nil
    }

    /// Makes the claim of a request, and carries out the request when the claim is granted.
    ///
    /// `former`: if `request` is a retry, the earlier request. `pause`: a pause that the request makes unless it is a retry.
    func coordinate(
        _ request: ClaimedRequest, after former: ClaimedRequest?, during pause: MergePause? = nil,
        reply: consuming Reply, then step: @escaping Step
    ) {
        if let former {
            // The kernel retries a request only once. If the retry must wait, it waits while the kernel holds a lock
            // for it.
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
        // The kernel's own threads (such as those of its NFS server) do not retry a request. Such a thread's next
        // request may be for another program.
        let canRetry = { !ProcessInspection.isKernelThread(request.thread) }
        if isNameAwaited(request) {
            guard canRetry() else { return claimUnderLock(request, reply: reply, then: step) }
            return requestRetry(request, to: directory, reply: reply) { [self] serial in
                delay(request, serial, nil) { [self] in claimBehind(request, serial, pause) }
            }
        }
        if let grant = claim(request) {
            // An open may have been granted just before this claim, so the name is checked a second time. From now on,
            // this claim keeps further opens waiting. So a pause ends when the present writers have closed the file.
            guard mustDelay(request, pause), canRetry() else { return step(request, grant, reply) }
            request.decide(.granted(grant))
            return requestRetry(request, to: directory, reply: reply) { [self] serial in
                delay(request, serial, pause) { [self] in answer(request, serial) }
            }
        }
        guard canRetry() else { return waitUnderLock(request, reply: reply, then: step) }
        requestRetry(request, to: directory, reply: reply) { [self] serial in
            request.whenDecided { [self] _ in
                delay(request, serial, pause) { [self] in answer(request, serial) }
            }
        }
    }

    /// Withdraws the claim of a request that the kernel will not retry.
    func giveUp(_ request: ClaimedRequest?) {
        guard let request else { return }
        request.giveUp()
        engine.withdraw(request.claim)
    }

    /// Ends a request that is not carried out. For a rename, also ends the claims that were made for the writers of its
    /// files.
    func abandon(_ request: ClaimedRequest?) {
        giveUp(request)
        guard let request, case .renaming = request.kind else { return }
        for part in request.request.parts {
            if let node = nodes[part.item] { identity.giveUpClaims(of: node) }
        }
    }

    /// Makes the claim of a request, unless another thread has made it. Returns the grant if the claim need not wait.
    /// If the claim waits, `request` gets the decision later.
    private func claim(_ request: ClaimedRequest) -> Grant? {
        guard request.beginClaiming() else { return nil }
        switch engine.claim(request.request, by: request) {
        case .granted(let grant): return grant
        case .waiting:
            engine.onDecision(request.claim) { request.decide($0) }
            return nil
        }
    }

    /// Continues a retried request. If its claim is not granted yet, waits briefly, while the kernel holds a lock for
    /// the request.
    private func resume(_ request: ClaimedRequest, reply: consuming Reply, then step: @escaping Step) {
        if let grant = claim(request) { return stepBehindLookups(request, grant, reply: reply, then: step) }
        waitUnderLock(request, reply: reply, then: step)
    }

    /// Carries out a retried request when no thread is about to look up the name that the request takes away.
    ///
    /// Since the name was last checked, an open may have found out that its file was replaced. The kernel knows the name, so the
    /// retry of the open needs no lock on the directory. The request holds this lock, so it waits only for a moment.
    private func stepBehindLookups(
        _ request: ClaimedRequest, _ grant: Grant, reply: consuming Reply, then step: @escaping Step
    ) {
        guard isNameAwaited(request) else { return step(request, grant, reply) }
        engine.counters.parkedUnderLock.count()
        let parked = Parked(reply)
        pollName(request, until: Engine.now + Self.longestMoment) { [self] in
            guard let reply = parked.take() else { return }
            context.resumeRequest(request.directory, reply, mayBlock: true) { step(request, grant, $0) }
        }
    }

    private func pollName(
        _ request: ClaimedRequest, until end: Instant, then next: @escaping @Sendable () -> Void
    ) {
        guard isNameAwaited(request), Engine.now < end else { return next() }
        engine.timers.schedule(at: (Engine.now + Self.interval).nanoseconds) { [self] in
            pollName(request, until: end, then: next)
        }
    }

    private func claimUnderLock(_ request: ClaimedRequest, reply: consuming Reply, then step: @escaping Step)
    {
        if let grant = claim(request) { return step(request, grant, reply) }
        waitUnderLock(request, reply: reply, then: step)
    }

    /// Waits for the claim while the kernel holds a lock for the request. After a short time the claim goes ahead of
    /// the other claims, so that the lock is not held for long.
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

// These functions handle the time between the answer ESTALE and the retry.
extension RetryCoordinator {
    /// Answers ESTALE. The kernel then sends a GETATTR, which waits. `wait` must make sure that this GETATTR is
    /// answered in the end.
    private func requestRetry(
        _ request: ClaimedRequest, to directory: Node, reply: consuming Reply, _ wait: (UInt64) -> Void
    ) {
        let serial = beginRetry(.request(request), in: directory.id, by: request.thread)
        recordRetry(by: request, request.claim)
        wait(serial)
        connection.invalidateAttributes(of: directory.id)
        reply.fail(.stale)
    }

    /// Makes the claim of a request whose step was delayed. If the claim must wait, this wait then comes before the
    /// retry, and not during the retry, when the kernel holds a lock. The pause comes after the claim.
    private func claimBehind(_ request: ClaimedRequest, _ serial: UInt64, _ pause: MergePause?) {
        guard engine.hasAwareClients || pause != nil, retries[request.thread]?.serial == serial else {
            return answer(request, serial)
        }
        if let grant = claim(request) { request.decide(.granted(grant)) }
        // The request was interrupted while the claim was being made. So the claim is withdrawn now.
        if request.isOver {
            engine.withdraw(request.claim)
            return answer(request, serial)
        }
        request.whenDecided { [self, weak request] _ in
            guard let request else { return }
            guard let pause else { return answer(request, serial) }
            delay(request, serial, pause) { [self] in answer(request, serial) }
        }
    }

    /// Ends the wait of a request: answers its GETATTR. The kernel then sends the request again, or gives it up.
    private func answer(_ request: ClaimedRequest, _ serial: UInt64) {
        guard let directory = request.directory else { return }
        // If this claim were held until the retry, another request might wait for the claim, with a kernel lock that
        // the retry needs.
        if request.endsWhenDecided { giveUp(request) }
        answerGetattr(of: serial, by: request.thread, about: directory.id)
        expire(serial, of: request.thread) { [self] in abandon(request) }
    }

    /// Calls `next` when no thread is about to look up the name that the request takes away, and no pause lasts. Calls it
    /// after 500 ms in any case.
    private func delay(
        _ request: ClaimedRequest, _ serial: UInt64, _ pause: MergePause?,
        then next: @escaping @Sendable () -> Void
    ) {
        pollDelay(request, serial, pause, until: Engine.now + Self.longestDelay, then: next)
    }

    private func pollDelay(
        _ request: ClaimedRequest, _ serial: UInt64, _ pause: MergePause?, until end: Instant,
        then next: @escaping @Sendable () -> Void
    ) {
        guard mustDelay(request, pause), Engine.now < end, retries[request.thread]?.serial == serial else {
            return next()
        }
        engine.timers.schedule(at: (Engine.now + Self.interval).nanoseconds) { [self] in
            pollDelay(request, serial, pause, until: end, then: next)
        }
    }

    private func mustDelay(_ request: ClaimedRequest, _ pause: MergePause?) -> Bool {
        isNameAwaited(request) || pause?.lasts ?? false
    }

    private func isNameAwaited(_ request: ClaimedRequest) -> Bool {
        guard let change = request.vacated else { return false }
        return retries.isLookupRetrying(to: change.name.bytes, in: change.directory.id)
            || expectedRetries.isExpected(at: request.request.first.item) { $0.mayRequestRetry(in: engine) }
    }
}
