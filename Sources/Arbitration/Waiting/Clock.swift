// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The time of the arbiter, its timers, and the wake-ups that the arbiter has requested.
///
/// Invariants:
///
/// - Time never runs backwards (T4).
/// - Each requested wake-up is in the future, and is earlier than all wake-ups that were requested before (T3).
/// - The subject of a timer, such as a claim, stores its own deadline. A timer with another moment is stale, and is
///   skipped.
struct Clock: Sendable {
    private(set) var now = Instant(nanoseconds: 0)
    private var timers = TimerQueue()
    /// The requested wake-ups, the latest moment first.
    private var requestedWakes: [Instant] = []

    /// The number of timers, stale timers included.
    var count: Int { timers.count }

    /// T4: Sets the time, but never to an earlier moment.
    @inline(__always)
    mutating func advance(to moment: Instant) { if moment > now { now = moment } }

    mutating func setTimer(for subject: TimerQueue.Subject, at moment: Instant) {
        timers.insert(TimerQueue.TimerEntry(moment: moment, subject: subject))
    }

    /// The timer with the earliest moment, which may be stale.
    var earliestTimer: TimerQueue.TimerEntry? { timers.earliest }
    mutating func removeEarliestTimer() { timers.removeEarliest() }

    /// Whether most timers are stale. `wanted` is the number of timers that are not stale.
    ///
    /// A stale timer stays until its moment, which can be long after the end of its claim. So stale timers are removed
    /// when they are too many.
    func hasManyTimers(besides wanted: Int) -> Bool { timers.count > 64 + 4 * wanted }

    /// Removes the stale timers.
    mutating func removeTimers(except isWanted: (TimerQueue.TimerEntry) -> Bool) { timers.keep(isWanted) }

    /// T3: Forgets the requested wake-ups in the past. Wake-ups in the future stay, so that they are not requested a
    /// second time.
    mutating func dropPastWakes() {
        while let asked = requestedWakes.last, asked <= now { requestedWakes.removeLast() }
    }

    /// T3: Notes that a wake-up is needed. Returns whether it must be requested: not if an earlier wake-up was
    /// requested already.
    mutating func requestWake(at moment: Instant) -> Bool {
        if let next = requestedWakes.last, next <= moment { return false }
        requestedWakes.append(moment)
        return true
    }
}
