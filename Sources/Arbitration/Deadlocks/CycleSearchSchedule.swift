// SPDX-License-Identifier: Apache-2.0
import Coordination

/// When cycles are looked for (D5).
struct CycleSearchSchedule: Sendable {
    /// When those are looked for that were put off; nil if none are.
    var due: Instant?
    /// Whether that moment has come.
    var isSearching = false
    /// What was looked at in this second.
    var steps = 0
    /// Whether things may hang on claims of which that is not noted.
    var isBehind = false
    var backlog = CycleSearchBacklog()
    /// The second that counts.
    fileprivate(set) var second: UInt64 = 0
}

extension Arbiter {
    private static let second: UInt64 = 1_000_000_000

    /// Whether claims of so many programs wait that cycles are looked for at whole seconds only.
    private var hasManyPrograms: Bool { waiterFamilies.processes > limits.programs }

    /// Whether what was put off can be looked for now.
    var canRunDeferredSearch: Bool {
        cycleSchedule.due != nil && (cycleSchedule.isSearching || !hasManyPrograms) && hasStepsLeft
    }

    private var hasStepsLeft: Bool {
        cycleSchedule.steps < limits.steps || now.nanoseconds / Self.second != cycleSchedule.second
    }

    /// Whether cycles may be looked for now; begins to count anew with each second.
    var maySearch: Bool {
        mutating get {
            let second = now.nanoseconds / Self.second
            if second != cycleSchedule.second { (cycleSchedule.second, cycleSchedule.steps) = (second, 0) }
            return (cycleSchedule.isSearching || !hasManyPrograms) && cycleSchedule.steps < limits.steps
        }
    }

    /// Until the next whole second.
    mutating func deferSearch() {
        guard cycleSchedule.due == nil else { return }
        let moment = Instant(nanoseconds: (now.nanoseconds / Self.second + 1) * Self.second)
        cycleSchedule.due = moment
        timers.insert(TimerQueue.TimerEntry(moment: moment, subject: .search))
    }

    /// The moment has come.
    mutating func beginDeferredSearch(at moment: Instant) {
        guard cycleSchedule.due == moment else { return }
        cycleSchedule.isSearching = true
    }
}
