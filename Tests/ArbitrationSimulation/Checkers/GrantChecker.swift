// SPDX-License-Identifier: Apache-2.0
import Coordination

/// No two incompatible claims are granted, nobody overtakes, and whom a write goes over is listed (G1 to G5).
struct GrantChecker: Checker {
    mutating func see(_ effect: Effect, of event: Event, _ ledger: Ledger, _ report: inout Report) {
        guard case .grant(let id, let grant) = effect else { return }
        guard let claim = ledger.claims[id], !claim.isHeld else { return }
        if grant.basis != .proceeded {
            for other in ledger.claims.values where ledger.standsInTheWay(other, of: claim, certain: true) {
                report.blame("\(id) is granted though \(other.id) stands in its way")
            }
        }
        if !claim.isBatch { checkPassed(claim, grant, ledger, &report) }
    }

    /// G5.
    private func checkPassed(
        _ claim: Ledger.Entry, _ grant: Grant, _ ledger: Ledger, _ report: inout Report
    ) {
        let listed = grant.passed.map(\.claim)
        if listed != Array(Set(listed)).sorted() { report.blame("\(claim.id) lists \(listed), not in order") }
        let natures: Set<Request.Nature> = [.handle, .request, .aware]
        for other in ledger.held where natures.contains(other.nature) && other.id != claim.id {
            let isWritten = claim.parts.contains { part in
                part.access.isWrite
                    && other.parts.contains { $0.item == part.item && $0.access.isWrite }
            }
            let mustBeListed =
                isWritten && !ledger.areExempt(other, claim)
            let entry = grant.passed.first { $0.claim == other.id }
            if mustBeListed, entry == nil, !grant.passesMore {
                report.blame("\(claim.id) does not list \(other.id)")
            }
            if let entry, entry.isClean != other.isClean {
                report.blame("\(claim.id) lists \(other.id) as \(entry.isClean ? "clean" : "not clean")")
            }
        }
        for id in listed {
            guard let other = ledger.claims[id], other.isHeld, natures.contains(other.nature) else {
                report.blame("\(claim.id) lists \(id), which is no such holder")
                continue
            }
            let isMet = ledger.meet(other, claim, certain: false, onBoth: true)
            if !isMet || ledger.areExempt(other, claim) { report.blame("\(claim.id) lists \(id) in vain") }
        }
    }
}

/// Every claim is decided once, and within its bound (T1, T2, P12).
struct WaitChecker: Checker {
    mutating func see(_ effect: Effect, of event: Event, _ ledger: Ledger, _ report: inout Report) {
        switch effect {
        case .grant(let id, let grant):
            guard let claim = ledger.claims[id], !claim.isHeld else {
                return report.blame("\(id) is granted twice, or unknown")
            }
            if grant.basis == .proceeded { checkProceeding(claim, ledger, &report) }
            if grant.basis == .free, case .claimed(let request) = event, request.claim == id { return }
            if grant.basis == .free { report.blame("\(id) is granted freely, and late") }
        case .refuse(let id, let refusal):
            guard let claim = ledger.claims[id], !claim.isHeld else {
                return report.blame("\(id) is refused though it is held or unknown")
            }
            checkRefusal(claim, refusal, event, ledger, &report)
        case .retarget(let id, _, _):
            guard let claim = ledger.claims[id] else {
                return report.blame("\(id) is retargeted, and unknown")
            }
            if claim.isHeld, claim.nature == .handle { report.blame("\(id) leaves the file it has open") }
        default: break
        }
    }

    private func checkProceeding(_ claim: Ledger.Entry, _ ledger: Ledger, _ report: inout Report) {
        if claim.wasForced || claim.isExpired { return }
        if ledger.now < claim.arrived + ledger.bounds.wait, !claim.isOverdue {
            report.blame("\(claim.id) proceeds early")
        }
        if claim.nature == .aware || claim.isBatch { report.blame("\(claim.id) proceeds, and is aware") }
        if ledger.bounds.policy == .fail, !claim.onlyReads {
            report.blame("\(claim.id) proceeds under policy fail")
        }
    }

    private func checkRefusal(
        _ claim: Ledger.Entry, _ refusal: Refusal, _ event: Event, _ ledger: Ledger,
        _ report: inout Report
    ) {
        let isAware = claim.nature == .aware || claim.isBatch
        switch refusal {
        case .withdrawn:
            if event != .withdrawn(claim.id), event != .ended(claim.id) {
                report.blame("\(claim.id) is withdrawn, and nobody said so")
            }
        case .presenterFailed:
            guard case .answered(_, _, .failed) = event, isAware else {
                return report.blame("\(claim.id) is refused as presenterFailed, and no presenter failed")
            }
        case .deadlock: if !isAware { report.blame("\(claim.id) gets an error for a deadlock") }
        case .busy:
            if claim.onlyReads, !isAware { report.blame("\(claim.id) reads, and is refused as busy") }
            if !isAware, ledger.bounds.policy == .proceed {
                report.blame("\(claim.id) is refused as busy under policy proceed")
            }
        }
    }

    mutating func rest(after event: Event, _ ledger: Ledger, _ report: inout Report) {
        let waiting = ledger.claims.values.filter { !$0.isHeld }
        for claim in waiting {
            let plain = claim.arrived + ledger.bounds.wait
            let latest = claim.isExtended ? max(plain, claim.arrived + ledger.bounds.progress) : plain
            if event == .tick, latest <= ledger.now { report.blame("\(claim.id) waits beyond its bound") }
            if claim.wasForced { report.blame("\(claim.id) was forced and waits") }
            if claim.isOverdue { report.blame("\(claim.id) is overdue and waits") }
            guard let wake = ledger.wake else {
                report.blame("\(claim.id) waits, and no tick was asked for")
                continue
            }
            if wake > latest { report.blame("the next tick comes after the bound of \(claim.id)") }
        }
    }
}

/// Nobody waits who could be granted (I2).
struct QueueChecker: Checker {
    mutating func rest(after event: Event, _ ledger: Ledger, _ report: inout Report) {
        let waiting = ledger.claims.values.filter { !$0.isHeld }
        // Quadratic and worse; the largest worlds are looked at now and then.
        if waiting.count * ledger.claims.count > 600, event != .tick { return }
        for claim in waiting where !waitsForPresenters(claim, ledger) {
            let isHindered = ledger.claims.values.contains {
                ledger.standsInTheWay($0, of: claim, certain: false)
            }
            if !isHindered { report.blame("\(claim.id) waits for nobody") }
        }
    }

    private func waitsForPresenters(_ claim: Ledger.Entry, _ ledger: Ledger) -> Bool {
        let concerned = ledger.showings.filter { ledger.concerns($0.value, claim) }
        guard let party = claim.party else { return !concerned.isEmpty }
        // Asked for it when its item was somewhere else, or of a save that somebody else asked for.
        if ledger.upheaval >= claim.number, !ledger.questions.isEmpty { return true }
        return ledger.questions.values.contains {
            concerned[$0.presenter] != nil || Ledger.areOneProgram($0.cause.party, party)
        }
    }
}
