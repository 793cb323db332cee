// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The holders that are asked about, looked at and suspended: each keeps others out for a bounded time (X2, X3, Y1 to Y10).
struct LookChecker: Checker {
    private var asked: Set<ClaimID> = []
    /// Since when each holder has kept somebody out without a pause.
    private var contested: [ClaimID: Instant] = [:]

    mutating func hear(_ event: Event, _ ledger: Ledger, _ report: inout Report) {
        // What it keeps out by now, before it is suspended for it.
        noteContests(ledger)
    }

    mutating func see(_ effect: Effect, of event: Event, _ ledger: Ledger, _ report: inout Report) {
        switch effect {
        case .identify(let id):
            if !asked.insert(id).inserted { report.blame("\(id) is asked about twice") }
            guard let claim = ledger.claims[id] else {
                return report.blame("\(id) is unknown, and asked about")
            }
            if claim.nature == .episode { report.blame("\(id) is an episode, and asked about") }
            if claim.party != nil { report.blame("\(id) is known, and asked about") }
        case .observe(let id):
            guard let claim = ledger.claims[id], claim.isHeld, claim.nature == .handle else {
                return report.blame("\(id) is looked at, and no held handle")
            }
            if let suspension = claim.suspension, !suspension.isForReaders {
                report.blame("\(id) is looked at though it lets everybody pass")
            }
        case .suspend(let id, let suspension): check(id, suspension, event, ledger, &report)
        default: break
        }
    }

    private func check(
        _ id: ClaimID, _ suspension: Suspension, _ event: Event, _ ledger: Ledger, _ report: inout Report
    ) {
        guard let claim = ledger.claims[id], claim.isHeld else {
            return report.blame("\(id) is suspended and does not hold")
        }
        if ![.handle, .request, .aware, .batch].contains(claim.nature) {
            report.blame("\(id) is suspended, and is \(claim.nature)")
        }
        if let old = claim.suspension, !old.isForReaders || suspension.isForReaders {
            report.blame("\(id) is suspended twice: \(old), \(suspension)")
        }
        let seen: Observation? = if case .observed(id, let seen) = event { seen } else { nil }
        switch suspension {
        case .yielded:
            let isIdlerKnown = claim.onlyReads && claim.party?.programClass == .background
            if case .unchanged = seen { break }
            if case .finishing = seen { break }
            if seen != .clean, seen != .atEnd, !isIdlerKnown { report.blame("\(id) yields and was not seen") }
        case .stoodStill:
            guard case .reading = seen else { return report.blame("\(id) stood still, unseen") }
        case .idle:
            guard case .dirty = seen else { return report.blame("\(id) is idle, unseen") }
        case .unchanged:
            guard case .unchanged = seen else { return report.blame("\(id) is unchanged, unseen") }
        case .held:
            if event != .tick { report.blame("\(id) is suspended as held, not by time") }
        case .deadlocked: break
        }
    }

    mutating func rest(after event: Event, _ ledger: Ledger, _ report: inout Report) {
        asked = asked.filter { ledger.claims[$0] != nil }
        noteContests(ledger)
        guard event == .tick else { return }
        for (id, since) in contested {
            let claim = ledger.claims[id]
            let isLocked = claim?.conduct.contains(.locks) ?? false
            let longest = isLocked ? min(ledger.bounds.hold, ledger.bounds.idle) : ledger.bounds.hold
            let hold = claim?.nature == .aware ? ledger.bounds.holdAware : longest
            if since + hold <= ledger.now { report.blame("\(id) keeps others out for longer than \(hold)") }
        }
    }

    /// Y1.
    private mutating func noteContests(_ ledger: Ledger) {
        let waiting = ledger.claims.values.filter { !$0.isHeld }
        var now: [ClaimID: Instant] = [:]
        for holder in ledger.claims.values where holder.isHeld {
            guard [.handle, .request, .aware].contains(holder.nature),
                holder.suspension?.isForReaders ?? true,
                waiting.contains(where: {
                    // G4: a change of names is kept out by aware claims alone.
                    ($0.nature != .nameChange || holder.nature == .aware) && $0.nature != .episode
                        && ledger.keepsOut(holder, $0, certain: true)
                })
            else { continue }
            now[holder.id] = contested[holder.id] ?? ledger.now
        }
        contested = now
    }
}
