// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Grants claims, until no further claim can be granted.
extension NaiveArbiter {
    mutating func processPendingWork() {
        repeat { advance() } while !hasManyPrograms && breakCycle()
        noteDeferredCycle()
    }

    mutating func advance() {
        noteOverlongQueues()
        repeat {
            requestIdentity()
            repeat { advanceAccessSessions() } while advanceClaims()
            requestIdentity()
        } while reviewContentions()
        requestIdentity()
    }

    /// Makes the next step for each claim that no other claim blocks, in the order of claim numbers.
    ///
    /// - Returns: whether a claim was granted, was refused or chose its presenters.
    private mutating func advanceClaims() -> Bool {
        let free = claims.indices.filter { !claims[$0].isHeld && isFree($0) }.map { claims[$0].id }
        var hasGoneOn = false
        for id in free {
            guard let index = index(of: id), !claims[index].isHeld, isFree(index), advance(index) else {
                continue
            }
            hasGoneOn = true
            advanceAccessSessions()
        }
        return hasGoneOn
    }

    private mutating func advance(_ index: Int) -> Bool {
        if claims[index].hasConsulted {
            guard openQuestions(of: index).isEmpty else { return false }
            grantOrRefuse(index)
        } else if !isPresented(index) {
            grant(index, .waited)
        } else if claims[index].party != nil {
            consult(index)
            advanceAccessSessions()
            if openQuestions(of: index).isEmpty { grantOrRefuse(index) }
        } else {
            // P1, X2: presenters are chosen only after the claim's party is identified.
            identify(index)
            return false
        }
        return true
    }

    /// X2, X3: asks for the parties of waiting claims that are blocked, and of the claims that block them.
    private mutating func requestIdentity() {
        for waiter in claims.indices where !claims[waiter].isHeld {
            let blockers = blockers(of: waiter)
            for index in blockers where mayBeAsked(index) { identify(index) }
            if !blockers.isEmpty { identify(waiter) }
        }
    }

    /// Y11: whether the arbiter may ask for the party of a claim. A holder that can be in contention is asked only while it is
    /// in contention.
    private func mayBeAsked(_ index: Int) -> Bool {
        let claim = claims[index]
        return !claim.isHeld || claim.contendedSince != nil || claim.isFullySuspended
            || [.nameChange, .pendingSave].contains(claim.nature)
    }

    private mutating func identify(_ index: Int) {
        guard !claims[index].isAskedWho, claims[index].party == nil else { return }
        guard claims[index].nature != .pendingSave else { return }
        claims[index].isAskedWho = true
        effects.append(.identify(claims[index].id))
    }

    /// P12: grants a claim, or refuses it under the policy `fail` if it is a write without the consent of a presenter.
    private mutating func grantOrRefuse(_ index: Int) {
        let claim = claims[index]
        let isBusy = bounds.policy == .fail && !claim.onlyReads && !claim.isOfSocket
        if isBusy, !unanswered(of: index).isEmpty { refuse(index, .busy) } else { grant(index, .waited) }
    }

    mutating func grant(_ index: Int, _ basis: Grant.Basis) {
        let preempted = preempted(by: index).map {
            Grant.Preemption(claim: claims[$0].id, isClean: claims[$0].isClean)
        }
        let isTold = !claims[index].onlyReads || claims[index].isOfSocket
        let unanswered = isTold ? listUnaskedWrites(index, unanswered(of: index)) : []
        claims[index].isHeld = true
        noteOverlongQueues()
        for accessSession in claims[index].accessSessions {
            forgetWants(of: accessSession)
            if !claims[index].onlyReads { change(accessSession) { $0.wasWritten = true } }
        }
        let grant = Grant(
            basis: basis, preempted: Array(preempted.prefix(limits.preempted)),
            preemptsMore: preempted.count > limits.preempted,
            unanswered: unanswered)
        effects.append(.grant(claims[index].id, grant))
    }

    /// G5: the held write claims of other programs on an item that the granted claim writes.
    private func preempted(by index: Int) -> [Int] {
        if claims[index].nature == .batch { return [] }
        return claims.indices.filter { other in
            other != index && claims[other].isHeld && !areExempt(other, index)
                && [.handle, .handleless, .aware].contains(claims[other].nature)
                && claims[index].parts.contains { part in
                    part.access.isWrite
                        && claims[other].parts.contains { $0.item == part.item && $0.access.isWrite }
                }
        }
    }

    /// P12: the presenters that refused or forfeited a question of a claim, or have not answered it yet.
    private func unanswered(of index: Int) -> [PresenterID] {
        let claim = claims[index]
        guard claim.hasConsulted else { return claim.nature == .pendingSave ? [] : wouldBeAsked(by: index) }
        return presenters.map(\.id).filter { id in
            accessSessions.contains { accessSession in
                accessSession.presenter == id && claim.accessSessions.contains(accessSession.id)
                    && (accessSession.isRefused || accessSession.isForfeited || isOpen(accessSession))
                    && (claim.isOfSocket || !claim.skippedPresenters.contains(id))
            }
        }
    }

    /// P12: returns the presenters that a grant lists. A listed presenter was perhaps not asked, because it forfeited questions
    /// before (P7, P8), or is muted (N15). It was also not asked if the claim was made within another access (P15).
    private mutating func listUnaskedWrites(_ index: Int, _ unanswered: [PresenterID]) -> [PresenterID] {
        let claim = claims[index]
        let party = claim.party ?? .nobody
        let preempted =
            claim.hasConsulted || claim.nature == .pendingSave
            ? claim.unaskedWritesOfClaim
            : presenters.flatMap { unaskedWrites(by: index, $0, party) }
                + unaskedWritesOfMuted(by: index, party)
        var all = Set(unanswered)
        for (id, item) in preempted {
            let presenter = presenters.first { $0.id == id }
            if let presenter, !presenter.unaskedWrites.contains(item) { all.insert(id) }
        }
        if claim.hasConsulted, !claim.isOfSocket { claims[index].overriddenPresenters = all.sorted() }
        return all.sorted()
    }

    /// Whether the access session waits for an answer.
    func isOpen(_ accessSession: NaiveAccessSession) -> Bool {
        questions.contains { $0.accessSession == accessSession.id || accessSession.awaited.contains($0.id) }
    }

    /// T1: decides about a waiting claim when its time is over. The claim is refused as busy, or goes ahead.
    mutating func runOut(_ index: Int) {
        let claim = claims[index]
        if claim.isOfSocket || (bounds.policy == .fail && !claim.onlyReads) {
            refuse(index, .busy)
        } else {
            grant(index, .proceeded)
        }
    }
}
