// SPDX-License-Identifier: Apache-2.0
import Coordination

/// D5: Decides when searches for cycles run.
///
/// Invariants:
///
/// - `steps` is the number of steps taken in the second `second`.
/// - A search is deferred only to a whole second, and a timer is set for `due`.
struct CycleSearchSchedule: Sendable {
    /// The moment at which a deferred search will run; nil if no search is deferred.
    private(set) var due: Instant?
    /// Whether the deferred search runs, or the moment for it has come.
    private(set) var isSearching = false
    /// The number of search steps taken in the second `second`.
    private(set) var steps = 0
    /// The claims with which the next deferred search begins.
    private(set) var backlog = CycleSearchBacklog()
    /// The second of the monotonic clock to which the count `steps` belongs.
    private var second: UInt64 = 0

    private static let second: UInt64 = 1_000_000_000

    /// Whether the deferred search can run now. If `isHeldBack` is true, searches run only at whole seconds.
    func canRunDeferredSearch(at now: Instant, within limit: Int, isHeldBack: Bool) -> Bool {
        due != nil && (isSearching || !isHeldBack)
            && (steps < limit || now.nanoseconds / Self.second != second)
    }

    /// Returns whether a search may run now. Resets the step count when a new second has begun.
    mutating func maySearch(at now: Instant, within limit: Int, isHeldBack: Bool) -> Bool {
        let present = now.nanoseconds / Self.second
        if present != second { (second, steps) = (present, 0) }
        return (isSearching || !isHeldBack) && steps < limit
    }

    mutating func addSteps(_ count: Int) { steps += count }

    /// Defers the search to the next whole second. Returns that moment, or nil if a search is deferred already.
    mutating func `defer`(at now: Instant) -> Instant? {
        guard due == nil else { return nil }
        let moment = Instant(nanoseconds: (now.nanoseconds / Self.second + 1) * Self.second)
        due = moment
        return moment
    }

    /// Notes that the moment of the deferred search has come.
    mutating func begin(at moment: Instant) { if due == moment { isSearching = true } }

    /// Notes that the deferred search runs now.
    mutating func beginDeferredSearch() { (isSearching, due) = (true, nil) }

    mutating func end() { isSearching = false }

    /// Sets the claims with which the next deferred search begins.
    mutating func resume(from backlog: CycleSearchBacklog) { self.backlog = backlog }
}

extension Arbiter {
    /// Whether so many programs have waiting claims that searches run only at whole seconds.
    private var hasManyPrograms: Bool { families.waiters.processes > limits.programs }

    /// Whether a deferred search can run now.
    var canRunDeferredSearch: Bool {
        waitForGraph.schedule.canRunDeferredSearch(
            at: now, within: limits.steps, isHeldBack: hasManyPrograms)
    }

    /// Returns whether a search for cycles may run now.
    mutating func maySearch() -> Bool {
        waitForGraph.schedule.maySearch(at: now, within: limits.steps, isHeldBack: hasManyPrograms)
    }

    /// Defers the search to the next whole second.
    mutating func deferSearch() {
        if let moment = waitForGraph.schedule.defer(at: now) { clock.setTimer(for: .search, at: moment) }
    }
}
