// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Begins and ends contentions, and suspends holders so that waiting claims can be granted.
extension NaiveArbiter {
    /// Y1, Y3: begins and ends contentions, and suspends the readers of background programs.
    ///
    /// - Returns: whether a holder was suspended.
    mutating func reviewContentions() -> Bool {
        // A claim that follows its item to another place may still have a contention from before the move.
        for holder in claims.indices where claims[holder].contendedSince != nil { noteFullness(of: holder) }
        for holder in claims.indices where !isContended(holder) { claims[holder].contendedSince = nil }
        var hasYielded = false
        // Y11: if a presenter has relinquished to a holder, the holder's contention may begin even if the resource already has
        // the maximum number of contentions.
        for isForced in [true, false] {
            for holder in claims.indices where isContended(holder) {
                guard claims[holder].contendedSince != nil || isRelinquished(holder) == isForced,
                    claims[holder].contendedSince != nil || isForced || hasRoom(holder)
                else { continue }
                if claims[holder].contendedSince == nil { beginContention(holder) }
                let isReading = claims[holder].nature == .handle && claims[holder].onlyReads
                if isReading, claims[holder].party?.programClass == .background {
                    suspend(holder, .yielded)
                    hasYielded = true
                }
            }
        }
        fullSince = fullSince.filter { contentionStarts(of: $0.key).count >= limits.holders }
        return hasYielded
    }

    private mutating func beginContention(_ holder: Int) {
        let things = lockedResources(by: holder)
        let since = things.compactMap { fullSince[$0] }.min()
        claims[holder].contendedSince = min(beginning(of: holder), since ?? now)
        claims[holder].lastChange = now
        claims[holder].seen = nil
        claims[holder].unchangedGrace = now + bounds.unchangedGrace
        claims[holder].nextObservation =
            claims[holder].nature == .handle ? now + bounds.firstObservationDelay : nil
        noteFullness(of: holder)
    }

    private mutating func noteFullness(of holder: Int) {
        for thing in lockedResources(by: holder) where fullSince[thing] == nil {
            let all = contentionStarts(of: thing)
            if all.count >= limits.holders { fullSince[thing] = all.min() }
        }
    }

    /// The moments at which the contentions of all holders of a resource began.
    private func contentionStarts(of thing: NaiveResource) -> [Instant] {
        claims.indices.filter { lockedResources(by: $0).contains(thing) }.compactMap {
            claims[$0].contendedSince
        }
    }

    /// Y11: whether the holder keeps a claim waiting on a resource that has fewer contentions than the maximum number.
    private func hasRoom(_ holder: Int) -> Bool {
        claims.indices.contains { waiter in
            !claims[waiter].isHeld
                && things(onWhichMeet: holder, waiter).contains { thing in
                    keepsOut(holder, waiter, on: thing) && contentionStarts(of: thing).count < limits.holders
                }
        }
    }

    private func isRelinquished(_ holder: Int) -> Bool {
        accessSessions.contains { claims[holder].accessSessions.contains($0.id) && $0.hasAskedToRelinquish }
    }

    /// Y6: the moment at which the holder's contention begins.
    ///
    /// If a claim that arrived before the holder waits for this holder, this is the earliest start of a contention of the
    /// holder's program.
    private func beginning(of holder: Int) -> Instant {
        guard claims.indices.contains(where: { $0 < holder && !claims[$0].isHeld && keepsOut(holder, $0) })
        else { return now }
        let others = claims.indices.filter { other in
            claims[other].isHeld && claims[other].isOfSocket == claims[holder].isOfSocket
                && !lockedResources(by: other).isDisjoint(with: lockedResources(by: holder))
                && (areOfOneProgram(other, holder)
                    || claims[holder].request.within.contains(claims[other].id))
        }
        return others.compactMap { claims[$0].contendedSince }.min() ?? now
    }

    /// The resources that a claim occupies. S4: the claim's read lock on the contents of a directory counts only if another
    /// claim needs to write them.
    private func lockedResources(by index: Int) -> Set<NaiveResource> {
        Set(
            claims[index].requiredLocks.filter { lock in
                guard case .contents(let directory) = lock.thing, !lock.isWrite else { return true }
                return claims[index].entered.contains(directory)
            }.map(\.thing))
    }

    private func isContended(_ holder: Int) -> Bool {
        let claim = claims[holder]
        guard claim.isHeld, ![.nameChange, .pendingSave].contains(claim.nature), !claim.isFullySuspended
        else {
            return false
        }
        if isRelinquished(holder) { return true }
        return claims.indices.contains { !claims[$0].isHeld && keepsOut(holder, $0) }
    }

    /// N4: suspends a claim. The claim leaves its access sessions, and its observed changes are reported to presenters.
    mutating func suspend(_ index: Int, _ suspension: Suspension) {
        claims[index].suspension = suspension
        if ![.idle, .unchanged].contains(suspension) { claims[index].contendedSince = nil }
        effects.append(.suspend(claims[index].id, suspension))
        let claim = claims[index]
        var stamp: UInt64?
        if case .dirty(let seen) = claim.seen { stamp = seen }
        if (stamp != nil && stamp != claim.reportedStamp) || claim.seen == .emptied {
            for part in claim.parts where part.access.isWrite {
                let cause = Cause(claim.party ?? .nobody, part.access)
                noteChange(part.item, part.place, cause, claim.id, nil)
            }
            claims[index].reportedStamp = stamp
        }
        leaveAccessSessions(index)
    }

    /// Y3, Y4, Y5, Y9: records an observation of a holder. The holder is suspended if it has nothing to lose, or if it has been
    /// idle for too long.
    mutating func observe(_ id: ClaimID, _ observation: Observation) {
        guard let index = index(of: id), claims[index].contendedSince != nil else { return }
        if claims[index].seen != nil && claims[index].seen != observation { claims[index].lastChange = now }
        claims[index].seen = observation
        let still = now.since(claims[index].lastChange)
        switch observation {
        case .clean:
            claims[index].isClean = true
            suspend(index, .yielded)
        case .atEnd: suspend(index, .yielded)
        case .unchanged where still >= bounds.idle:
            claims[index].isClean = true
            suspend(index, .yielded)
        case .unchanged(let position) where position > 0 || now >= claims[index].unchangedGrace:
            if claims[index].suspension == nil { suspend(index, .unchanged) }
        case .unchanged where claims[index].suspension == nil:
            // Y2: if a writer has changed nothing, its next observation is at the end of `unchangedGrace`.
            claims[index].nextObservation = claims[index].nextObservation.map {
                min($0, claims[index].unchangedGrace)
            }
        case .atEndUnconfirmed where still >= bounds.readerIdle: suspend(index, .yielded)
        case .reading where still >= bounds.readerIdle: suspend(index, .readerStalled)
        case .dirty where still >= bounds.idle && claims[index].suspension == nil: suspend(index, .idle)
        default: break
        }
    }

    /// Y6, Y10: returns the latest moment at which a holder is suspended. The moment comes sooner for a handle that locks its
    /// file.
    func holdEnd(of claim: NaiveClaim) -> Instant? {
        let own = claim.request.bounds.hold ?? bounds.hold
        let hold = claim.accessPattern.contains(.locks) ? min(own, bounds.idle) : own
        return claim.contendedSince.map { $0 + (claim.isOfSocket ? bounds.holdAware : hold) }
    }
}
