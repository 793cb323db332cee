// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Granting, and going on until nothing changes.
extension NaiveArbiter {
    mutating func settle() {
        repeat { goOn() } while !isCrowd && breakCycle()
        noteCycleInCrowd()
    }

    mutating func goOn() {
        noteCrowds()
        repeat {
            askWho()
            repeat { goOnWithTurns() } while goOnWithClaims()
            askWho()
        } while contest()
        askWho()
    }

    /// Each claim that nothing is in the way of goes on, in the order of their numbers; whether any did.
    private mutating func goOnWithClaims() -> Bool {
        let free = claims.indices.filter { !claims[$0].isHeld && isFree($0) }.map { claims[$0].id }
        var hasGoneOn = false
        for id in free {
            guard let index = index(of: id), !claims[index].isHeld, isFree(index), goOn(index) else {
                continue
            }
            hasGoneOn = true
            goOnWithTurns()
        }
        return hasGoneOn
    }

    private mutating func goOn(_ index: Int) -> Bool {
        if claims[index].isPut {
            guard openQuestions(of: index).isEmpty else { return false }
            grantOrRefuse(index)
        } else if !isPresented(index) {
            grant(index, .waited)
        } else if claims[index].party != nil {
            put(index)
            goOnWithTurns()
            if openQuestions(of: index).isEmpty { grantOrRefuse(index) }
        } else {
            // P1, X2.
            identify(index)
            return false
        }
        return true
    }

    /// X2, X3.
    private mutating func askWho() {
        for waiter in claims.indices where !claims[waiter].isHeld {
            let obstacles = obstacles(of: waiter)
            for index in obstacles where mayBeAsked(index) { identify(index) }
            if !obstacles.isEmpty { identify(waiter) }
        }
    }

    /// Y11: of holders that can be contested only those that are.
    private func mayBeAsked(_ index: Int) -> Bool {
        let claim = claims[index]
        return !claim.isHeld || claim.contestedSince != nil || claim.isFullySuspended
            || [.nameChange, .episode].contains(claim.nature)
    }

    private mutating func identify(_ index: Int) {
        guard !claims[index].isAskedWho, claims[index].party == nil else { return }
        guard claims[index].nature != .episode else { return }
        claims[index].isAskedWho = true
        effects.append(.identify(claims[index].id))
    }

    /// P12: a write that nobody agreed to is refused by policy.
    private mutating func grantOrRefuse(_ index: Int) {
        let claim = claims[index]
        let isBusy = bounds.policy == .fail && !claim.onlyReads && !claim.isOfSocket
        if isBusy, !unanswered(of: index).isEmpty { refuse(index, .busy) } else { grant(index, .waited) }
    }

    mutating func grant(_ index: Int, _ basis: Grant.Basis) {
        let passed = passed(by: index).map { Grant.Passed(claim: claims[$0].id, isClean: claims[$0].isClean) }
        let isTold = !claims[index].onlyReads || claims[index].isOfSocket
        let unanswered = isTold ? passOver(index, unanswered(of: index)) : []
        claims[index].isHeld = true
        noteCrowds()
        for turn in claims[index].turns {
            forgetWants(of: turn)
            if !claims[index].onlyReads { change(turn) { $0.wasWritten = true } }
        }
        let grant = Grant(
            basis: basis, passed: Array(passed.prefix(crowd.passed)), passesMore: passed.count > crowd.passed,
            unanswered: unanswered)
        effects.append(.grant(claims[index].id, grant))
    }

    /// G5.
    private func passed(by index: Int) -> [Int] {
        if claims[index].nature == .batch { return [] }
        return claims.indices.filter { other in
            other != index && claims[other].isHeld && !areExempt(other, index)
                && [.handle, .request, .aware].contains(claims[other].nature)
                && claims[index].parts.contains { part in
                    part.access.isWrite
                        && claims[other].parts.contains { $0.item == part.item && $0.access.isWrite }
                }
        }
    }

    /// P12.
    private func unanswered(of index: Int) -> [PresenterID] {
        let claim = claims[index]
        guard claim.isPut else { return claim.nature == .episode ? [] : wouldBeAsked(by: index) }
        return presenters.map(\.id).filter { id in
            turns.contains { turn in
                turn.presenter == id && claim.turns.contains(turn.id)
                    && (turn.isRefused || turn.isForfeited || isOpen(turn))
                    && (claim.isOfSocket || !claim.excusers.contains(id))
            }
        }
    }

    /// P12.
    private mutating func passOver(_ index: Int, _ unanswered: [PresenterID]) -> [PresenterID] {
        let claim = claims[index]
        let party = claim.party ?? .nobody
        let passed =
            claim.isPut || claim.nature == .episode
            ? claim.passesOver
            : presenters.flatMap { passedOver(by: index, $0, party) } + passedOverMuted(by: index, party)
        var all = Set(unanswered)
        for (id, item) in passed {
            let presenter = presenters.first { $0.id == id }
            if let presenter, !presenter.passedOver.contains(item) { all.insert(id) }
        }
        if claim.isPut, !claim.isOfSocket { claims[index].goneOver = all.sorted() }
        return all.sorted()
    }

    /// Whether somebody still owes it an answer.
    func isOpen(_ turn: NaiveTurn) -> Bool {
        questions.contains { $0.turn == turn.id || turn.awaited.contains($0.id) }
    }

    /// T1.
    mutating func runOut(_ index: Int) {
        let claim = claims[index]
        if claim.isOfSocket || (bounds.policy == .fail && !claim.onlyReads) {
            refuse(index, .busy)
        } else {
            grant(index, .proceeded)
        }
    }
}
