// SPDX-License-Identifier: Apache-2.0
import Coordination

/// When cycles are looked for (D5).
struct CycleWatch: Sendable {
    /// When those are looked for that were put off; nil if none are.
    var due: Instant?
    /// Whether that moment has come.
    var isSearching = false
    /// What was looked at in this second.
    var steps = 0
    /// Whether things may hang on claims of which that is not noted.
    var isBehind = false
    var agenda = CycleAgenda()
    /// The second that counts.
    fileprivate(set) var second: UInt64 = 0
}

extension Arbiter {
    private static let second: UInt64 = 1_000_000_000

    /// Whether claims of so many programs wait that cycles are looked for at whole seconds only.
    private var isCrowd: Bool { waiterKinship.processes > crowd.programs }

    /// Whether what was put off can be looked for now.
    var mayCatchUp: Bool {
        cycleWatch.due != nil && (cycleWatch.isSearching || !isCrowd) && hasStepsLeft
    }

    private var hasStepsLeft: Bool {
        cycleWatch.steps < crowd.steps || now.nanoseconds / Self.second != cycleWatch.second
    }

    /// Whether cycles may be looked for now; begins to count anew with each second.
    var maySearch: Bool {
        mutating get {
            let second = now.nanoseconds / Self.second
            if second != cycleWatch.second { (cycleWatch.second, cycleWatch.steps) = (second, 0) }
            return (cycleWatch.isSearching || !isCrowd) && cycleWatch.steps < crowd.steps
        }
    }

    /// Until the next whole second.
    mutating func putOffSearch() {
        guard cycleWatch.due == nil else { return }
        let moment = Instant(nanoseconds: (now.nanoseconds / Self.second + 1) * Self.second)
        cycleWatch.due = moment
        alarms.insert(Alarms.Alarm(moment: moment, subject: .search))
    }

    /// The moment has come.
    mutating func searchPutOff(at moment: Instant) {
        guard cycleWatch.due == moment else { return }
        cycleWatch.isSearching = true
    }
}
