// SPDX-License-Identifier: Apache-2.0
import Coordination

/// What happens because time passed.
extension Arbiter {
    /// T4.
    mutating func tick(_ effects: inout [Effect]) {
        // T3: what has come is used up; what is still to come comes, and need not be asked for again.
        while let asked = wakeAskedFor, asked <= now { wakesAskedFor.removeLast() }
        // T5: what is left is due at once, and others' events may come before it.
        var left = crowd.alarms
        while left > 0, let alarm = earliestAlarm(), alarm.moment <= now {
            left -= 1
            alarms.removeEarliest()
            switch alarm.subject {
            case .claim(let claim): due(claim, &effects)
            case .question(let question): forfeit(question, &effects)
            case .turn(let turn): endTurn(turn, &effects)
            case .search: searchPutOff(at: alarm.moment)
            }
            settle(&effects)
            cycleWatch.isSearching = false
        }
    }

    private mutating func due(_ id: ClaimID, _ effects: inout [Effect]) {
        if waits[id] != nil { return expire(id, &effects) }
        guard var contest = contests[id] else { return }
        contest.alarm = nil
        contests[id] = contest
        // Y6.
        if contest.end <= now {
            // Y9.
            if case .unchanged = contest.seen { claims[id]?.isClean = true }
            return suspend(id, .held, &effects)
        }
        // Y2.
        if let look = contest.nextLook, look <= now {
            effects.append(.observe(id))
            let next = now + timeBetweenLooks
            contests[id]?.nextLook = next
        }
        rearm(id)
    }

    /// T1.
    mutating func expire(_ id: ClaimID, _ effects: inout [Effect]) {
        guard let claim = claims[id] else { return }
        if claim.mayGoAhead(under: bounds.policy) {
            grant(claim, basis: .proceeded, &effects)
        } else {
            refuse(claim, .busy, &effects)
        }
    }

    /// Y2.
    private var timeBetweenLooks: Span {
        let fifth = Span(nanoseconds: min(bounds.readerIdle, bounds.idle).nanoseconds / 5)
        return max(fifth, .milliseconds(5))
    }

    /// Sets the next moment of a contest.
    mutating func rearm(_ id: ClaimID) {
        guard let contest = contests[id] else { return }
        let next = min(contest.end, contest.nextLook ?? contest.end)
        contests[id]?.alarm = next
        alarms.insert(Alarms.Alarm(moment: next, subject: .claim(id)))
    }

    /// T3.
    mutating func askForWake(_ effects: inout [Effect]) {
        guard let earliest = earliestAlarm()?.moment else { return }
        if let wakeAskedFor, wakeAskedFor <= earliest { return }
        wakesAskedFor.append(earliest)
        effects.append(.wake(at: earliest))
    }

    private mutating func earliestAlarm() -> Alarms.Alarm? {
        // Stale entries may outlive their claims by `wait`; they must not pile up meanwhile.
        let wanted = waits.count + contests.count + desk.questions.count + desk.turns.count
        if alarms.count > 64 + 4 * wanted {
            var kept = alarms
            kept.keep(isWanted)
            alarms = kept
        }
        while let alarm = alarms.earliest {
            if isWanted(alarm) { return alarm }
            alarms.removeEarliest()
        }
        return nil
    }

    private func isWanted(_ alarm: Alarms.Alarm) -> Bool {
        switch alarm.subject {
        case .claim(let claim):
            if let wait = waits[claim] { return wait.deadline == alarm.moment }
            return contests[claim]?.alarm == alarm.moment
        case .question(let question): return desk.questions[question]?.deadline == alarm.moment
        case .turn(let turn): return desk.turns[turn]?.end == alarm.moment
        case .search: return cycleWatch.due == alarm.moment
        }
    }
}
