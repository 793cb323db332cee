// SPDX-License-Identifier: Apache-2.0
import Coordination

/// How timers take effect.
extension Arbiter {
    /// T4: Handles the timers that are due, in the order of their moments.
    mutating func tick(_ effects: inout [Effect]) {
        clock.dropPastWakes()
        // T5: If more timers are due than the limit, a wake-up for the others is requested, so that other events can be
        // handled before them.
        var left = limits.timers
        while left > 0, let timer = earliestTimer(), timer.moment <= now {
            left -= 1
            clock.removeEarliestTimer()
            switch timer.subject {
            case .claim(let claim): due(claim, &effects)
            case .question(let question): forfeit(question, &effects)
            case .accessSession(let accessSession): endAccessSession(accessSession, &effects)
            case .search: waitForGraph.schedule.begin(at: timer.moment)
            }
            processPendingWork(&effects)
            waitForGraph.schedule.end()
        }
    }

    private mutating func due(_ id: ClaimID, _ effects: inout [Effect]) {
        if waits.contains(id) { return expire(id, &effects) }
        guard let contention = contentions[id] else { return }
        contentions.update(id) { $0.timer = nil }
        // Y6: The contention has reached its time limit.
        if contention.end <= now {
            // Y9: A writer that has changed nothing until the time limit is treated as clean.
            if case .unchanged = contention.seen { claims.update(id) { $0.isClean = true } }
            return suspend(id, .holdExpired, &effects)
        }
        // Y2: The next observation of the holder is due.
        if let look = contention.nextObservation, look <= now {
            effects.append(.observe(id))
            let next = now + observationInterval
            contentions.update(id) { $0.nextObservation = next }
        }
        rearm(id)
    }

    /// T1: Decides about a claim that has reached its time limit.
    mutating func expire(_ id: ClaimID, _ effects: inout [Effect]) {
        guard let claim = claims[id] else { return }
        if claim.mayGoAhead(under: bounds.policy) {
            grant(claim, basis: .proceeded, &effects)
        } else {
            refuse(claim, .busy, &effects)
        }
    }

    /// Y2: The time between two observations of a holder: a fifth of the shorter of `idle` and `readerIdle`, but at
    /// least 5 ms.
    private var observationInterval: TimeSpan {
        let fifth = TimeSpan(nanoseconds: min(bounds.readerIdle, bounds.idle).nanoseconds / 5)
        return max(fifth, .milliseconds(5))
    }

    /// Sets the next timer of a contention.
    mutating func rearm(_ id: ClaimID) {
        guard let contention = contentions[id] else { return }
        let next = min(contention.end, contention.nextObservation ?? contention.end)
        contentions.update(id) { $0.timer = next }
        clock.setTimer(for: .claim(id), at: next)
    }

    /// T3: Requests a wake-up for the earliest timer, unless a wake-up before that moment was requested already.
    mutating func requestWake(_ effects: inout [Effect]) {
        guard let earliest = earliestTimer()?.moment else { return }
        if clock.requestWake(at: earliest) { effects.append(.wake(at: earliest)) }
    }

    private mutating func earliestTimer() -> TimerQueue.TimerEntry? {
        let wanted =
            waits.count + contentions.count + registry.questions.count + registry.accessSessions.count
        if clock.hasManyTimers(besides: wanted) {
            var kept = clock
            kept.removeTimers(except: isWanted)
            clock = kept
        }
        while let timer = clock.earliestTimer {
            if isWanted(timer) { return timer }
            clock.removeEarliestTimer()
        }
        return nil
    }

    private func isWanted(_ timer: TimerQueue.TimerEntry) -> Bool {
        switch timer.subject {
        case .claim(let claim):
            if let wait = waits[claim] { return wait.deadline == timer.moment }
            return contentions[claim]?.timer == timer.moment
        case .question(let question): return registry.questions[question]?.deadline == timer.moment
        case .accessSession(let accessSession):
            return registry.accessSessions[accessSession]?.end == timer.moment
        case .search: return waitForGraph.schedule.due == timer.moment
        }
    }
}
