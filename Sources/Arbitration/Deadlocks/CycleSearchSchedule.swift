// SPDX-License-Identifier: Apache-2.0
import Coordination

/// When searches for cycles run (D5).
///
/// Invariants:
///
/// - `steps` were taken in the second `second`.
/// - A search is deferred only to a whole second, and `due` has a timer.
struct CycleSearchSchedule: Sendable {
    /// The moment of the deferred search; nil if none is deferred.
    private(set) var due: Instant?
    /// Whether the deferred search runs, or its moment has come.
    private(set) var isSearching = false
    /// The steps taken in this second.
    private(set) var steps = 0
    /// The place where the next deferred search continues.
    private(set) var backlog = CycleSearchBacklog()
    /// The second in which `steps` were taken.
    private var second: UInt64 = 0

    private static let second: UInt64 = 1_000_000_000

    /// Whether the deferred search can run; `isHeldBack` tells whether searches run only at whole seconds.
    func canRunDeferredSearch(at now: Instant, within limit: Int, isHeldBack: Bool) -> Bool {
        due != nil && (isSearching || !isHeldBack)
            && (steps < limit || now.nanoseconds / Self.second != second)
    }

    /// Returns whether a search may run now; resets the step count in each new second.
    mutating func maySearch(at now: Instant, within limit: Int, isHeldBack: Bool) -> Bool {
        let present = now.nanoseconds / Self.second
        if present != second { (second, steps) = (present, 0) }
        return (isSearching || !isHeldBack) && steps < limit
    }

    mutating func addSteps(_ count: Int) { steps += count }

    /// Defers the search to the next whole second; returns that moment unless a search is deferred already.
    mutating func `defer`(at now: Instant) -> Instant? {
        guard due == nil else { return nil }
        let moment = Instant(nanoseconds: (now.nanoseconds / Self.second + 1) * Self.second)
        due = moment
        return moment
    }

    /// Notes that the moment of the deferred search has come.
    mutating func begin(at moment: Instant) { if due == moment { isSearching = true } }

    /// Begins the deferred search itself.
    mutating func beginDeferredSearch() { (isSearching, due) = (true, nil) }

    mutating func end() { isSearching = false }

    /// Sets the place where the next deferred search continues.
    mutating func resume(from backlog: CycleSearchBacklog) { self.backlog = backlog }
}

extension Arbiter {
    /// Whether claims of so many programs wait that searches run only at whole seconds.
    private var hasManyPrograms: Bool { families.waiters.processes > limits.programs }

    /// Whether the deferred search can run now.
    var canRunDeferredSearch: Bool {
        waitForGraph.schedule.canRunDeferredSearch(
            at: now, within: limits.steps, isHeldBack: hasManyPrograms)
    }

    /// Returns whether a search may run now.
    mutating func maySearch() -> Bool {
        waitForGraph.schedule.maySearch(at: now, within: limits.steps, isHeldBack: hasManyPrograms)
    }

    /// Defers the search to the next whole second.
    mutating func deferSearch() {
        if let moment = waitForGraph.schedule.defer(at: now) { clock.setTimer(for: .search, at: moment) }
    }
}
