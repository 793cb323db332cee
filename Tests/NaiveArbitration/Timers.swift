// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// Carries out the actions that are due at the end of a time limit.
extension NaiveArbiter {
    /// An action that is due at a moment. T4: earlier actions come first; of several actions at one moment, questions come
    /// first, then access sessions, then claims.
    private struct NaiveDueAction: Comparable {
        enum Subject { case question(Question), accessSession(AccessSessionID), claim(ClaimID), search }
        let moment: Instant
        let kind: Int
        let number: UInt64
        let subject: Subject

        static func < (one: Self, other: Self) -> Bool {
            (one.moment, one.kind, one.number) < (other.moment, other.kind, other.number)
        }
        static func == (one: Self, other: Self) -> Bool { !(one < other) && !(other < one) }
    }

    /// T3: the earliest moment at which the arbiter must act without an event.
    package var nextMoment: Instant? {
        dues.filter { due in
            guard case .accessSession(let id) = due.subject else { return true }
            return accessSessions.contains { $0.id == id && isWorthTelling($0) }
        }
        .min()?.moment
    }

    /// Whether an access session has notices to send. A session without notices needs no wake-up for its end.
    func isWorthTelling(_ accessSession: NaiveAccessSession) -> Bool {
        guard let presenter = presenters.first(where: { $0.id == accessSession.presenter }) else {
            return false
        }
        return !notices(at: accessSession, presenter).isEmpty
    }

    private var dues: [NaiveDueAction] {
        var dues = questions.map {
            NaiveDueAction(moment: $0.deadline, kind: 0, number: $0.id.rawValue, subject: .question($0))
        }
        for accessSession in accessSessions {
            guard let end = accessSession.end else { continue }
            dues.append(
                NaiveDueAction(
                    moment: end, kind: 1, number: accessSession.id.rawValue,
                    subject: .accessSession(accessSession.id)))
        }
        for claim in claims {
            guard let moment = moment(of: claim) else { continue }
            dues.append(
                NaiveDueAction(moment: moment, kind: 2, number: claim.id.rawValue, subject: .claim(claim.id)))
        }
        if let searchDue {
            dues.append(NaiveDueAction(moment: searchDue, kind: 3, number: 0, subject: .search))
        }
        return dues
    }

    private func moment(of claim: NaiveClaim) -> Instant? {
        guard claim.isHeld else { return claim.deadline }
        guard let end = holdEnd(of: claim) else { return nil }
        return min(end, claim.nextObservation ?? end)
    }

    /// T4: carries out all actions that are due, in the order of their moments.
    mutating func tick() {
        while let due = dues.min(), due.moment <= now {
            switch due.subject {
            case .question(let question): forfeit(question)
            case .accessSession(let id): end(id)
            case .claim(let id): if let index = index(of: id) { happen(index) }
            case .search: breakDeferredCycles()
            }
            processPendingWork()
        }
    }

    private mutating func happen(_ index: Int) {
        let claim = claims[index]
        if !claim.isHeld {
            runOut(index)
        } else if let end = holdEnd(of: claim), end <= now {
            // Y6, Y9: when `hold` ends, a writer counts as clean (it has changed nothing) if its last observation has shown no
            // change.
            if case .unchanged = claim.seen { claims[index].isClean = true }
            suspend(index, .holdExpired)
        } else {
            // Y2: observes the holder. The next observation comes after a fifth of the shorter of the two limits `readerIdle`
            // and `idle`.
            effects.append(.observe(claim.id))
            let fifth = min(bounds.readerIdle, bounds.idle).nanoseconds / 5
            claims[index].nextObservation = now + max(TimeSpan(nanoseconds: fifth), .milliseconds(5))
        }
    }
}
