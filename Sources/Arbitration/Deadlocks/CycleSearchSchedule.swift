// SPDX-License-Identifier: Apache-2.0
import Coordination

/// When searches for cycles run (D5).
struct CycleSearchSchedule: Sendable {
    /// The moment of the deferred search; nil if none is deferred.
    var due: Instant?
    /// Whether the moment of the deferred search has come.
    var isSearching = false
    /// The steps taken in this second.
    var steps = 0
    /// Whether `dependencyTargets` may lack claims.
    var isBehind = false
    var backlog = CycleSearchBacklog()
    /// The second in which `steps` were taken.
    fileprivate(set) var second: UInt64 = 0
}

extension Arbiter {
    private static let second: UInt64 = 1_000_000_000

    /// Whether claims of so many programs wait that searches run only at whole seconds.
    private var hasManyPrograms: Bool { families.waiters.processes > limits.programs }

    /// Whether the deferred search can run now.
    var canRunDeferredSearch: Bool {
        cycleSchedule.due != nil && (cycleSchedule.isSearching || !hasManyPrograms) && hasStepsLeft
    }

    private var hasStepsLeft: Bool {
        cycleSchedule.steps < limits.steps || now.nanoseconds / Self.second != cycleSchedule.second
    }

    /// Whether a search may run now; resets the step count in each new second.
    var maySearch: Bool {
        mutating get {
            let second = now.nanoseconds / Self.second
            if second != cycleSchedule.second { (cycleSchedule.second, cycleSchedule.steps) = (second, 0) }
            return (cycleSchedule.isSearching || !hasManyPrograms) && cycleSchedule.steps < limits.steps
        }
    }

    /// Defers the search to the next whole second.
    mutating func deferSearch() {
        guard cycleSchedule.due == nil else { return }
        let moment = Instant(nanoseconds: (now.nanoseconds / Self.second + 1) * Self.second)
        cycleSchedule.due = moment
        clock.setTimer(for: .search, at: moment)
    }

    /// Begins the deferred search at its moment.
    mutating func beginDeferredSearch(at moment: Instant) {
        guard cycleSchedule.due == moment else { return }
        cycleSchedule.isSearching = true
    }
}
