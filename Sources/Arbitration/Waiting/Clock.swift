// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The arbiter's time, its timers and the wake-ups that it has requested.
///
/// Invariants:
///
/// - Time never runs backwards (T4).
/// - Each requested wake-up is still to come, and is earlier than the one requested before it (T3).
/// - A timer may be stale: its subject says when it is due, and stale timers are skipped.
struct Clock: Sendable {
    private(set) var now = Instant(nanoseconds: 0)
    private var timers = TimerQueue()
    /// The requested wake-ups, the latest first.
    private var requestedWakes: [Instant] = []

    /// The number of timers, stale ones included.
    var count: Int { timers.count }

    /// T4.
    @inline(__always)
    mutating func advance(to moment: Instant) { if moment > now { now = moment } }

    mutating func setTimer(for subject: TimerQueue.Subject, at moment: Instant) {
        timers.insert(TimerQueue.TimerEntry(moment: moment, subject: subject))
    }

    /// The earliest timer, which may be stale.
    var earliestTimer: TimerQueue.TimerEntry? { timers.earliest }
    mutating func removeEarliestTimer() { timers.removeEarliest() }

    /// Whether most timers are stale, if so many are not.
    ///
    /// Stale timers can stay for `wait` after their claims have ended, so they must not accumulate.
    func hasManyTimers(besides wanted: Int) -> Bool { timers.count > 64 + 4 * wanted }

    /// Removes stale timers.
    mutating func removeTimers(except isWanted: (TimerQueue.TimerEntry) -> Bool) { timers.keep(isWanted) }

    /// T3: Drops the requested wake-ups until now, which are used up; later ones are not requested again.
    mutating func dropPastWakes() {
        while let asked = requestedWakes.last, asked <= now { requestedWakes.removeLast() }
    }

    /// T3: Notes the request of a wake-up; returns whether no earlier one is requested already.
    mutating func requestWake(at moment: Instant) -> Bool {
        if let next = requestedWakes.last, next <= moment { return false }
        requestedWakes.append(moment)
        return true
    }
}
