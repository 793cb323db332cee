// SPDX-License-Identifier: Apache-2.0
import Coordination
import FuseBridge

/// Marks threads that were answered ESTALE and now walk their path for the second time. While a thread's mark is valid,
/// its requests count as retries.
///
/// Programs that create and remove names all the time can cause thousands of marks, and each open looks for a mark. So
/// the look-up takes the same time for any number of marks. Expired marks are removed now and then, all together. Each
/// user can have only a limited number of marks. If a user needs more, a program of the user may see ESTALE (D214).
struct RetryMarks: Sendable {
    struct RetryTarget: Equatable, Sendable {
        let directory: NodeID
        let name: [UInt8]
    }

    enum Stage: Equatable, Sendable {
        /// In its second walk of the path, the thread has not reached the last name yet.
        case isOnItsWay
        /// The thread has looked up the last name for the second time.
        ///
        /// `nothingAt`: the name, if no file was found. The kernel then looks the name up a third time, with the
        /// directory's lock held, before it reports ENOENT.
        case came(nothingAt: RetryTarget?)
    }

    private struct Mark {
        let user: UInt32
        var until: Instant
        var stage: Stage
    }

    static let mostOfUser = 4096
    private static let betweenSweeps = TimeSpan.milliseconds(250)

    private var marks: [Int32: Mark] = [:]
    private var countOfUser: [UInt32: Int] = [:]
    private var nextSweep = Instant(nanoseconds: 0)

    /// The number of marks, including expired marks that were not removed yet.
    var count: Int { marks.count }

    func has(_ thread: Int32, at now: Instant) -> Bool { stage(of: thread, at: now) != nil }

    func isOnItsWay(_ thread: Int32, at now: Instant) -> Bool { stage(of: thread, at: now) == .isOnItsWay }

    private func stage(of thread: Int32, at now: Instant) -> Stage? {
        marks[thread].flatMap { now < $0.until ? $0.stage : nil }
    }

    mutating func mark(_ caller: Caller, as stage: Stage, until end: Instant, at now: Instant) {
        sweep(at: now)
        remove(caller.thread)
        guard countOfUser[caller.user, default: 0] < Self.mostOfUser else { return }
        countOfUser[caller.user, default: 0] += 1
        marks[caller.thread] = Mark(user: caller.user, until: end, stage: stage)
    }

    /// Removes a thread's mark. Returns whether the mark was valid.
    mutating func take(_ thread: Int32, at now: Instant) -> Bool {
        sweep(at: now)
        return remove(thread).map { now < $0.until } ?? false
    }

    /// Returns whether a thread's previous lookup found no file under this name. Returns true only once for each such
    /// lookup.
    mutating func takeMissing(_ place: RetryTarget, by thread: Int32, at now: Instant) -> Bool {
        guard stage(of: thread, at: now) == .came(nothingAt: place) else { return false }
        marks[thread]?.stage = .came(nothingAt: nil)
        return true
    }

    /// If a thread still walks its path, makes its mark expire at `end` or earlier.
    mutating func expect(_ thread: Int32, until end: Instant) {
        guard let mark = marks[thread], mark.stage == .isOnItsWay else { return }
        marks[thread]?.until = min(mark.until, end)
    }

    @discardableResult
    private mutating func remove(_ thread: Int32) -> Mark? {
        guard let mark = marks.removeValue(forKey: thread) else { return nil }
        let rest = countOfUser[mark.user, default: 1] - 1
        countOfUser[mark.user] = rest > 0 ? rest : nil
        return mark
    }

    private mutating func sweep(at now: Instant) {
        guard now >= nextSweep, !marks.isEmpty else { return }
        nextSweep = now + Self.betweenSweeps
        marks = marks.filter { now < $0.value.until }
        countOfUser = marks.values.reduce(into: [:]) { $0[$1.user, default: 0] += 1 }
    }
}
