// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Decides which claims block each other.
extension NaiveArbiter {
    func isFree(_ claimant: Int) -> Bool { blockers(of: claimant).isEmpty }

    /// Returns the claims that block a claim: holders that keep it out, and earlier waiting claims (G2, Q1, Q2, Q3, X4, D3).
    func blockers(of claimant: Int) -> [Int] {
        let claim = claims[claimant]
        // No claim blocks a pending save (G4), or a batch, which only asks presenters and requires no lock (B1).
        if claim.nature == .pendingSave || claim.nature == .batch { return [] }
        return claims.indices.filter { other in
            if other == claimant { return false }
            if claims[other].isHeld { return keepsOut(other, claimant) || holdsBack(other, claimant) }
            if claim.nature == .nameChange || claim.overtakes { return false }
            return other < claimant && meets(other, claimant) && !areExempt(other, claimant)
                && !isPassed(other, by: claimant)
        }
    }

    /// Whether two claims need not wait for each other: their programs belong together (X1, X5), or both claims append or lock
    /// (X6).
    func areExempt(_ one: Int, _ other: Int) -> Bool {
        areOfOneProgram(one, other) || areCompatible(one, other)
    }

    /// X6: handles of one item are compatible if all their programs lock the file, or if one appends and the other appends or
    /// reads.
    private func areCompatible(_ one: Int, _ other: Int) -> Bool {
        let pair = [claims[one], claims[other]]
        guard pair.allSatisfy({ $0.nature == .handle }), pair[0].parts[0].item == pair[1].parts[0].item else {
            return false
        }
        if pair.allSatisfy({ $0.accessPattern.contains(.locks) }) { return true }
        return pair.contains { $0.accessPattern.contains(.appends) }
            && pair.allSatisfy { $0.accessPattern.contains(.appends) || $0.onlyReads }
    }

    /// X1, X5: whether two identified claims belong to one program, or have the same purpose.
    func areOfOneProgram(_ one: Int, _ other: Int) -> Bool {
        guard let party = claims[one].party, let otherParty = claims[other].party else { return false }
        return party.isExempt(from: otherParty)
    }

    func keepsOut(_ holder: Int, _ claimant: Int, on thing: NaiveResource? = nil) -> Bool {
        // G4: only a held aware claim keeps out a name change.
        if claims[claimant].nature == .nameChange, claims[holder].nature != .aware { return false }
        if claims[holder].isFullySuspended || areExempt(holder, claimant) { return false }
        let isForReaders = [.idle, .unchanged].contains(claims[holder].suspension)
        return meetings(holder, claimant, on: thing).contains { _, isWrite in !isForReaders || isWrite }
    }

    /// X4: whether a suspended writer still blocks another writer, because one of the two is not identified yet.
    private func holdsBack(_ holder: Int, _ claimant: Int) -> Bool {
        // G4: a name change never waits for a suspended writer.
        if claims[holder].suspension == nil || claims[claimant].nature == .nameChange { return false }
        if claims[holder].party != nil, claims[claimant].party != nil { return false }
        if areExempt(holder, claimant) { return false }
        return meetings(holder, claimant).contains { $0 && $1 }
    }

    /// Q5: whether the lock queue of a resource is overlong, that is, too many claims wait in it.
    private func isOverlong(_ thing: NaiveResource) -> Bool { overlongQueues.contains(thing) }

    /// Q5: records which lock queues are overlong. A queue becomes overlong when more claims wait in it than the limit. The
    /// queue stays overlong until only half as many claims as the limit wait.
    mutating func noteOverlongQueues() {
        if claims.count <= limits.queue, overlongQueues.isEmpty { return }
        let waiting = claims.filter { !$0.isHeld }
        let things = Set(waiting.flatMap { $0.requiredLocks.map(\.thing) }).union(overlongQueues)
        for thing in things {
            let count = waiting.count { isThere($0, thing) }
            if count > limits.queue { overlongQueues.insert(thing) }
            if count <= limits.queue / 2 { overlongQueues.remove(thing) }
        }
    }

    private func isThere(_ claim: NaiveClaim, _ thing: NaiveResource) -> Bool {
        claim.requiredLocks.contains { lock in
            guard lock.thing == thing else { return false }
            guard case .contents(let directory) = thing else { return true }
            return lock.isWrite || claim.entered.contains(directory)
        }
    }

    /// Q3, Q5: whether a claim goes before a waiting claim that arrived earlier, on every resource that both need.
    private func isPassed(_ waiter: Int, by claimant: Int) -> Bool {
        things(onWhichMeet: waiter, claimant).allSatisfy { thing in
            isOverlong(thing)
                ? programHoldsExclusively(of: thing, like: claimant) && claims[waiter].nature != .nameChange
                : isHeldUp(waiter, by: claims[claimant].party)
        }
    }

    /// Q5: whether a claim held by the claimant's own program makes all other claims on the resource wait.
    private func programHoldsExclusively(of thing: NaiveResource, like claimant: Int) -> Bool {
        guard let party = claims[claimant].party, let process = party.process else { return false }
        return claims.contains { holder in
            guard holder.isHeld, let other = holder.party else { return false }
            return other.process == process && other.ancestors == party.ancestors
                && other.purpose == party.purpose && other.partner == party.partner
                && holder.suspension == nil && holder.accessPattern.isEmpty
                && holder.requiredLocks.contains { $0.thing == thing && $0.isWrite }
        }
    }

    /// Q3, P6: whether a waiting claim waits for a program, directly, through a presenter's answer, or in a chain of waiting
    /// claims.
    private func isHeldUp(_ waiter: Int, by party: Party?) -> Bool {
        guard let party else { return false }
        if owed(to: waiter).contains(where: { $0.isWorkedForBy(party) }) { return true }
        return claims.indices.contains { other in
            if claims[other].isHeld {
                return (claims[other].party?.isExempt(from: party) ?? false) && keepsOut(other, waiter)
            }
            // Q5: in an overlong queue, in which too many claims wait, a claim does not count as waiting for the claim before
            // it.
            return other < waiter && things(onWhichMeet: other, waiter).contains { !isOverlong($0) }
                && !areExempt(other, waiter) && isHeldUp(other, by: party)
        }
    }

    /// The unanswered questions for which a claim waits.
    func openQuestions(of claim: Int) -> [Question] {
        questions.filter { question in
            accessSessions.contains { accessSession in
                claims[claim].accessSessions.contains(accessSession.id)
                    && (question.accessSession == accessSession.id
                        || accessSession.awaited.contains(question.id))
            }
        }
    }

    /// The presenters with an unanswered question for which the claim waits.
    private func owed(to claim: Int) -> [NaivePresenter] {
        let ids = openQuestions(of: claim).map(\.presenter)
        return presenters.filter { ids.contains($0.id) }
    }
}
