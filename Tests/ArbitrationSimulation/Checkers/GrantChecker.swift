// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Checks that granted claims are compatible, that none goes ahead of a claim that blocks it, and that preempted claims are
/// listed (G1 to G5).
struct GrantChecker: Checker {
    mutating func noteEffect(
        _ effect: Effect, of event: ArbiterEvent, _ model: WorldModel, _ report: inout ViolationReport
    ) {
        guard case .grant(let id, let grant) = effect else { return }
        guard let claim = model.claims[id], !claim.isHeld else { return }
        if grant.basis != .proceeded {
            for other in model.claims.values where model.standsInTheWay(other, of: claim, certain: true) {
                report.addViolation("\(id) is granted though \(other.id) stands in its way")
            }
        }
        if !claim.isBatch { checkPassed(claim, grant, model, &report) }
    }

    /// G5: checks that the grant lists the held write claims of other programs on the items that it writes.
    private func checkPassed(
        _ claim: WorldModel.ClaimModel, _ grant: Grant, _ model: WorldModel, _ report: inout ViolationReport
    ) {
        let listed = grant.preempted.map(\.claim)
        if listed != Array(Set(listed)).sorted() {
            report.addViolation("\(claim.id) lists \(listed), not in order")
        }
        let natures: Set<ClaimRequest.Nature> = [.handle, .handleless, .aware]
        for other in model.held where natures.contains(other.nature) && other.id != claim.id {
            let isWritten = claim.parts.contains { part in
                part.access.isWrite
                    && other.parts.contains { $0.item == part.item && $0.access.isWrite }
            }
            let mustBeListed =
                isWritten && !model.areExempt(other, claim)
            let entry = grant.preempted.first { $0.claim == other.id }
            if mustBeListed, entry == nil, !grant.preemptsMore {
                report.addViolation("\(claim.id) does not list \(other.id)")
            }
            if let entry, entry.isClean != other.isClean {
                report.addViolation(
                    "\(claim.id) lists \(other.id) as \(entry.isClean ? "clean" : "not clean")")
            }
        }
        for id in listed {
            guard let other = model.claims[id], other.isHeld, natures.contains(other.nature) else {
                report.addViolation("\(claim.id) lists \(id), which is no such holder")
                continue
            }
            let isMet = model.meet(other, claim, certain: false, onBoth: true)
            if !isMet || model.areExempt(other, claim) {
                report.addViolation("\(claim.id) lists \(id) in vain")
            }
        }
    }
}

/// Checks that each claim is granted or refused exactly once, and within its time limit (T1, T2, P12).
struct WaitChecker: Checker {
    mutating func noteEffect(
        _ effect: Effect, of event: ArbiterEvent, _ model: WorldModel, _ report: inout ViolationReport
    ) {
        switch effect {
        case .grant(let id, let grant):
            guard let claim = model.claims[id], !claim.isHeld else {
                return report.addViolation("\(id) is granted twice, or unknown")
            }
            if grant.basis == .proceeded { checkProceeding(claim, model, &report) }
            if grant.basis == .free, case .claimed(let request) = event, request.claim == id { return }
            if grant.basis == .free { report.addViolation("\(id) is granted freely, and late") }
        case .refuse(let id, let refusal):
            guard let claim = model.claims[id], !claim.isHeld else {
                return report.addViolation("\(id) is refused though it is held or unknown")
            }
            checkRefusal(claim, refusal, event, model, &report)
        case .retarget(let id, _, _):
            guard let claim = model.claims[id] else {
                return report.addViolation("\(id) is retargeted, and unknown")
            }
            if claim.isHeld, claim.nature == .handle {
                report.addViolation("\(id) leaves the file it has open")
            }
        default: break
        }
    }

    private func checkProceeding(
        _ claim: WorldModel.ClaimModel, _ model: WorldModel, _ report: inout ViolationReport
    ) {
        if claim.wasForced || claim.isExpired { return }
        if model.now < claim.arrived + (claim.request.bounds.wait ?? model.bounds.wait), !claim.isOverdue {
            report.addViolation("\(claim.id) proceeds early")
        }
        if claim.nature == .aware || claim.isBatch {
            report.addViolation("\(claim.id) proceeds, and is aware")
        }
        if model.bounds.policy == .fail, !claim.onlyReads {
            report.addViolation("\(claim.id) proceeds under policy fail")
        }
    }

    private func checkRefusal(
        _ claim: WorldModel.ClaimModel, _ refusal: Refusal, _ event: ArbiterEvent, _ model: WorldModel,
        _ report: inout ViolationReport
    ) {
        let isAware = claim.nature == .aware || claim.isBatch
        switch refusal {
        case .withdrawn:
            if event != .withdrawn(claim.id), event != .ended(claim.id) {
                report.addViolation("\(claim.id) is withdrawn, and nobody said so")
            }
        case .presenterFailed:
            guard case .answered(_, _, .failed) = event, isAware else {
                return report.addViolation(
                    "\(claim.id) is refused as presenterFailed, and no presenter failed")
            }
        case .deadlock: if !isAware { report.addViolation("\(claim.id) gets an error for a deadlock") }
        case .busy:
            if claim.onlyReads, !isAware { report.addViolation("\(claim.id) reads, and is refused as busy") }
            if !isAware, model.bounds.policy == .proceed {
                report.addViolation("\(claim.id) is refused as busy under policy proceed")
            }
        }
    }

    mutating func finish(after event: ArbiterEvent, _ model: WorldModel, _ report: inout ViolationReport) {
        let waiting = model.claims.values.filter { !$0.isHeld }
        for claim in waiting {
            let plain = claim.arrived + (claim.request.bounds.wait ?? model.bounds.wait)
            let latest = claim.isExtended ? max(plain, claim.arrived + model.bounds.progress) : plain
            if event == .tick, latest <= model.now {
                report.addViolation("\(claim.id) waits beyond its bound")
            }
            if claim.wasForced { report.addViolation("\(claim.id) was forced and waits") }
            if claim.isOverdue { report.addViolation("\(claim.id) is overdue and waits") }
            guard let wake = model.wake else {
                report.addViolation("\(claim.id) waits, and no tick was asked for")
                continue
            }
            if wake > latest { report.addViolation("the next tick comes after the bound of \(claim.id)") }
        }
    }
}

/// Checks that no claim waits although nothing blocks it (I2).
struct QueueChecker: Checker {
    mutating func finish(after event: ArbiterEvent, _ model: WorldModel, _ report: inout ViolationReport) {
        let waiting = model.claims.values.filter { !$0.isHeld }
        // The time for this check grows at least with the square of the number of claims. So with very many claims the check
        // runs only at ticks.
        if waiting.count * model.claims.count > 600, event != .tick { return }
        for claim in waiting where !waitsForPresenters(claim, model) {
            let isHindered = model.claims.values.contains {
                model.standsInTheWay($0, of: claim, certain: false)
            }
            if !isHindered { report.addViolation("\(claim.id) waits for nobody") }
        }
    }

    private func waitsForPresenters(_ claim: WorldModel.ClaimModel, _ model: WorldModel) -> Bool {
        let concerned = model.presenterModels.filter { model.concerns($0.value, claim) }
        guard let party = claim.party else { return !concerned.isEmpty }
        // After a move, a claim can still wait for presenters of its former item. It can also wait for a save that a presenter
        // makes because of another claim.
        if model.lastStructuralChange >= claim.number, !model.questions.isEmpty { return true }
        return model.questions.values.contains {
            concerned[$0.presenter] != nil || WorldModel.areOneProgram($0.cause.party, party)
        }
    }
}
