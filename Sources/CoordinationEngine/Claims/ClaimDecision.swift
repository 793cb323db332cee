// SPDX-License-Identifier: Apache-2.0
import Arbitration
import Coordination
import LinuxSystem
import Synchronization

// Records the grants and refusals of claims, and delivers them to the claimants.

extension Engine {
    func recordDecision(
        _ claim: ClaimID, _ decision: Decision, at now: Instant, in state: inout State
    ) -> DeferredEffect? {
        guard let entry = state.claims[claim] else { return nil }
        if case .granted = decision { state.claims[claim]?.since = now }
        note(decision, of: claim, entry, at: now, in: &state)
        switch entry.phase {
        case .waiting(let since):
            logNotableDecision(decision, of: entry, waiting: now.since(since))
            state.setPhase(claim, .decided(decision))
            return nil
        case .waitingWithHandler(let since, let outcome):
            logNotableDecision(decision, of: entry, waiting: now.since(since))
            if case .granted = decision {
                state.setPhase(claim, .held)
            } else if let entry = state.claims.removeValue(forKey: claim) {
                state.eventContext.dropped.append(entry)
            }
            return .tell(outcome, decision)
        case .decided, .held: preconditionFailure("\(claim) was settled twice")
        }
    }

    /// Returns the reason of a refusal: the blockers of the claim, the presenter, or the deadlock.
    func explanation(
        of refusal: Refusal, to claim: ClaimID, at now: Instant, in state: State
    ) -> Explanation {
        var explanation = Explanation(at: now)
        switch refusal {
        case .withdrawn: break
        case .busy: explanation = state.explanation(of: claim, at: now)
        case .presenterFailed: explanation.refuser = state.eventContext.refuser
        case .deadlock:
            if let (victim, cycle) = state.eventContext.deadlock, victim == claim { explanation = cycle }
        }
        return explanation
    }

    /// Adds a step to the journal. If the journal removes an old step, the removed step is stored, so that its memory
    /// is freed only after the lock is released.
    func note(
        _ step: JournalEntry.Step, at now: Instant, claim: ClaimID? = nil, by subject: (any JournalSubject)?,
        _ detail: String = "", in state: inout State
    ) {
        guard let dropped = journal.note(step, at: now, claim: claim, by: subject, detail) else { return }
        state.eventContext.droppedSteps.append(dropped)
    }

    /// The largest number of preempted claims that a step of the journal lists.
    private static let listed = 8

    private func note(
        _ decision: Decision, of claim: ClaimID, _ entry: ClaimRecord, at now: Instant, in state: inout State
    ) {
        let subject = entry.claimant
        switch decision {
        case .granted(let grant):
            counters.granted.count()
            let hasProceeded = grant.basis == .proceeded
            if hasProceeded { counters.proceeded.count() }
            note(
                hasProceeded ? .proceeded : .granted, at: now, claim: claim, by: subject,
                grant.preempted.prefix(Self.listed).map { "over \($0.claim)" }.joined(separator: " ")
                    + (grant.preempted.count > Self.listed ? " and more" : ""), in: &state)
        case .refused(.withdrawn, _):
            note(.withdrawn, at: now, claim: claim, by: subject, in: &state)
        case .refused(let refusal, _):
            note(.refused, at: now, claim: claim, by: subject, refusal.rawValue, in: &state)
        }
    }

    /// Logs one line for each wait over one second, and for each claim that was granted or refused at its time limit.
    private func logNotableDecision(_ decision: Decision, of entry: ClaimRecord, waiting span: TimeSpan) {
        let what: String
        switch decision {
        case .granted(let grant) where grant.basis == .proceeded: what = "went ahead after waiting \(span)"
        case .granted where span > .seconds(1): what = "waited \(span)"
        case .refused(.busy, _): what = "was refused after waiting \(span)"
        default: return
        }
        // The processes are looked up later, on another thread, because this method runs under the lock.
        let (claimant, blocker) = (entry.claimant, entry.blocker)
        workers.run { [self] in
            logAction(
                blocker.map { "\(what) for \(Self.name(of: $0.attribution))" } ?? what, claimant.attribution)
        }
    }
}

// Texts for the log.
extension Engine {
    /// `hold` is how long the suspended claim was allowed to make other claims wait.
    func words(for suspension: Suspension, after hold: TimeSpan) -> String {
        switch suspension {
        case .yielded: "yielded to others"
        case .unchanged: "is suspended for readers, since it has changed nothing yet"
        case .readerStalled: "is suspended, since it read nothing for \(bounds.readerIdle)"
        case .idle: "is suspended for readers, since it changed nothing for \(bounds.idle)"
        case .holdExpired: "is suspended, since others waited for it for \(hold)"
        case .deadlocked: "is suspended, since it waited for a program that waited for it"
        }
    }

    func words(for resolution: Deadlock.Resolution, _ name: String) -> String {
        switch resolution {
        case .overtakes: "\(name) goes before the waiting programs"
        case .suspends: "\(name) is suspended"
        case .refuses: "\(name) is refused"
        case .proceeds: "\(name) goes ahead"
        }
    }

    /// Writes one line to the log, with the process, its action and the path.
    package func logAction(_ what: String, _ attribution: Attribution) {
        log("\(Self.name(of: attribution)) \(what): \(String(decoding: attribution.path(), as: UTF8.self))")
    }

    /// Writes one line to the log about a document, with its path as the subject.
    package func logDocument(_ path: [UInt8], _ what: String) {
        log("\(String(decoding: path, as: UTF8.self)) \(what)")
    }

    package static func name(of attribution: Attribution) -> String {
        let (process, program) = attribution.identity
        guard process > 0 || program != nil else { return "an unknown program" }
        let name = "\(program.map { String(decoding: $0, as: UTF8.self) } ?? "an ended process") (\(process))"
        return attribution.run.map { "\(name) of run '\($0.name)'" } ?? name
    }
}
