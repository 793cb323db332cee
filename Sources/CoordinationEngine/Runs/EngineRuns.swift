// SPDX-License-Identifier: Apache-2.0
package import Coordination
import LinuxSystem

// Begins and ends runs, and makes the claims of their leases.
extension Engine {
    /// Begins a run, when its leases conflict with those of no earlier run.
    ///
    /// The wait ends when the earlier runs have ended, or when this run has waited for the time `hold-aware`: then their
    /// leases are suspended. Both closures are called on any thread, and hold no lock.
    ///
    /// - Parameters:
    ///   - request: The name, the process and the leases of the run.
    ///   - token: The text by which the daemon recognises processes of the run that are no descendants any more.
    ///   - begin: Called once, when the run begins; not if the run is ended before.
    ///   - suspended: Called at most once, when other programs no longer wait for the leases.
    /// - Returns: The run; nil if the mount has too many runs.
    package func addRun(
        _ request: RunRequest, token: String, begin: @escaping @Sendable (RunID) -> Void,
        suspended: @escaping @Sendable (UInt64, LeaseSuspension) -> Void
    ) -> RunID? {
        let told: @Sendable (RunID, LeaseSuspension) -> Void = { [log] run, reason in
            log(
                "the leases of run '\(request.name)' (\(request.starter.number)) are suspended: \(reason.words)"
            )
            suspended(run.number, reason)
        }
        let reserved = reserveClaimIDs(request.leases.isEmpty ? 0 : RunRegistry.mostDocuments)
        guard
            let (id, calls) = runs.add(
                request, token: token, reserving: reserved, at: Self.now, begin: begin, suspended: told)
        else { return nil }
        if request.isUncoordinated { log("run '\(id.name)' (\(id.pid)) passes all waits") }
        calls.run()
        if !request.leases.isEmpty { scheduleReview(of: id, at: Self.now + bounds.holdAware) }
        return id
    }

    private func scheduleReview(of run: RunID, at moment: Instant) {
        timers.schedule(at: moment.nanoseconds) { [weak self] in
            guard let self else { return }
            let (next, calls) = runs.reviewWait(of: run, at: Self.now)
            calls.run()
            if let next { scheduleReview(of: run, at: max(next, Self.now + .milliseconds(1))) }
        }
    }

    /// Ends a run and the claims of its leases. Can block.
    package func endRun(_ run: RunID) {
        let (claims, calls) = runs.remove(run, at: Self.now)
        for claim in claims { withdraw(claim) }
        calls.run()
    }

    /// Makes the claims of the leases that cover a claim, before that claim.
    func claimLeases(before request: ClaimRequest, by claimant: any Claimant) {
        switch request.nature {
        case .handle, .handleless, .nameChange, .aware: break
        // These two natures need no lock for which the program would wait.
        case .pendingSave, .batch: return
        }
        // A new file has no contents to lose. The kernel holds the lock of its directory, so its maker cannot wait.
        if request.nature == .handle, request.first.access == .write(.forReplacing) { return }
        for (part, intent) in zip(request.parts, claimant.intents) {
            let path = intent.path()
            guard runs.isCovered(path, part.access) else { continue }
            let (due, calls) = runs.meet(
                part, at: path, by: claimant.identify(), now: Self.now, makeClaim: makeClaimID)
            calls.run()
            for lease in due { claim(lease, part, intent) }
        }
    }

    private func claim(_ lease: RunRegistry.DueClaim, _ part: ClaimRequest.Part, _ intent: Intent) {
        let (run, id) = (lease.run, lease.claim)
        let claimant = LeaseClaimant(
            run, of: lease.user, Intent(lease.access, to: intent.path), in: self)
        let request = ClaimRequest(id, .aware, ClaimRequest.Part(part.item, lease.access, at: part.place))
        let admission = claimAlone(request, by: claimant)
        identify(id, as: claimant.identify())
        if case .waiting = admission {
            onDecision(id) { [weak self] decision in
                if case .refused = decision { self?.runs.forget(id, of: run) }
            }
        }
        // The run may have ended before the claim was made. Then no other thread ends the claim.
        if !runs.isWanted(id, of: run) { withdraw(id) }
    }
}

extension LeaseSuspension {
    /// The reason as a part of a sentence.
    package var words: String {
        switch self {
        case .holdExpired: "other programs have waited for them for too long"
        case .deadlocked: "a program of the run and another program waited for each other"
        case .tooMany: "other programs use more than \(RunRegistry.mostDocuments) of their documents"
        }
    }
}
