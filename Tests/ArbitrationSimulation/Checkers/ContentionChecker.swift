// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Checks which holders are identified, observed and suspended, and that each holder delays other claims for a limited time
/// only (X2, X3, Y1 to Y10).
struct ContentionChecker: Checker {
    private var asked: Set<ClaimID> = []
    /// For each holder that makes another claim wait now, the time since which it has done so without a break.
    private var contended: [ClaimID: Instant] = [:]

    mutating func noteEvent(_ event: ArbiterEvent, _ model: WorldModel, _ report: inout ViolationReport) {
        // Records the contentions before the effects of the event end some of them.
        noteContentions(model)
    }

    mutating func noteEffect(
        _ effect: Effect, of event: ArbiterEvent, _ model: WorldModel, _ report: inout ViolationReport
    ) {
        switch effect {
        case .identify(let id):
            if !asked.insert(id).inserted { report.addViolation("\(id) is asked about twice") }
            guard let claim = model.claims[id] else {
                return report.addViolation("\(id) is unknown, and asked about")
            }
            if claim.nature == .pendingSave { report.addViolation("\(id) is an episode, and asked about") }
            if claim.party != nil { report.addViolation("\(id) is known, and asked about") }
        case .observe(let id):
            guard let claim = model.claims[id], claim.isHeld, claim.nature == .handle else {
                return report.addViolation("\(id) is looked at, and no held handle")
            }
            if let suspension = claim.suspension, !suspension.isForReaders {
                report.addViolation("\(id) is looked at though it lets everybody pass")
            }
        case .suspend(let id, let suspension): check(id, suspension, event, model, &report)
        default: break
        }
    }

    private func check(
        _ id: ClaimID, _ suspension: Suspension, _ event: ArbiterEvent, _ model: WorldModel,
        _ report: inout ViolationReport
    ) {
        guard let claim = model.claims[id], claim.isHeld else {
            return report.addViolation("\(id) is suspended and does not hold")
        }
        if ![.handle, .handleless, .aware, .batch].contains(claim.nature) {
            report.addViolation("\(id) is suspended, and is \(claim.nature)")
        }
        if let old = claim.suspension, !old.isForReaders || suspension.isForReaders {
            report.addViolation("\(id) is suspended twice: \(old), \(suspension)")
        }
        let seen: Observation? = if case .observed(id, let seen) = event { seen } else { nil }
        switch suspension {
        case .yielded:
            let isIdlerKnown = claim.onlyReads && claim.party?.programClass == .background
            if case .unchanged = seen { break }
            if case .atEndUnconfirmed = seen { break }
            if seen != .clean, seen != .atEnd, !isIdlerKnown {
                report.addViolation("\(id) yields and was not seen")
            }
        case .readerStalled:
            guard case .reading = seen else { return report.addViolation("\(id) stood still, unseen") }
        case .idle:
            guard case .dirty = seen else { return report.addViolation("\(id) is idle, unseen") }
        case .unchanged:
            guard case .unchanged = seen else { return report.addViolation("\(id) is unchanged, unseen") }
        case .holdExpired:
            if event != .tick { report.addViolation("\(id) is suspended as held, not by time") }
        case .deadlocked: break
        }
    }

    mutating func finish(after event: ArbiterEvent, _ model: WorldModel, _ report: inout ViolationReport) {
        asked = asked.filter { model.claims[$0] != nil }
        noteContentions(model)
        guard event == .tick else { return }
        for (id, since) in contended {
            let claim = model.claims[id]
            let isLocked = claim?.accessPattern.contains(.locks) ?? false
            let longest = isLocked ? min(model.bounds.hold, model.bounds.idle) : model.bounds.hold
            let hold = claim?.nature == .aware ? model.bounds.holdAware : longest
            if since + hold <= model.now {
                report.addViolation("\(id) keeps others out for longer than \(hold)")
            }
        }
    }

    /// Y1: records which holders make a waiting claim wait, and since when.
    private mutating func noteContentions(_ model: WorldModel) {
        let waiting = model.claims.values.filter { !$0.isHeld }
        var now: [ClaimID: Instant] = [:]
        for holder in model.claims.values where holder.isHeld {
            guard [.handle, .handleless, .aware].contains(holder.nature),
                holder.suspension?.isForReaders ?? true,
                waiting.contains(where: {
                    // G4: a name change waits only for aware claims.
                    ($0.nature != .nameChange || holder.nature == .aware) && $0.nature != .pendingSave
                        && model.keepsOut(holder, $0, certain: true)
                })
            else { continue }
            now[holder.id] = contended[holder.id] ?? model.now
        }
        contended = now
    }
}
