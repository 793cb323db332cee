// SPDX-License-Identifier: Apache-2.0
import Coordination
import FuseBridge

/// Marks threads that came back to a name, or were answered ESTALE. Until a mark ends, the thread's requests count as the
/// retry.
///
/// Programs that use and remove names without end can cause thousands of marks, and each open looks its thread up. So a lookup
/// costs the same for any number, and expired marks are removed together, now and then. Each user has a limit of marks; a
/// thread without a mark may see an ESTALE (D214).
struct RetryMarks: Sendable {
    struct RetryTarget: Equatable, Sendable {
        let directory: NodeID
        let name: [UInt8]
    }

    enum Stage: Equatable, Sendable {
        /// It has still to walk the path again.
        case isOnItsWay
        /// It came back to a name. If it found nothing there, the kernel looks once more with the directory's lock before it
        /// reports that.
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

    /// Includes expired marks that were not removed yet.
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

    /// Removes a thread's mark; returns whether it had a valid mark.
    mutating func take(_ thread: Int32, at now: Instant) -> Bool {
        sweep(at: now)
        return remove(thread).map { now < $0.until } ?? false
    }

    /// Whether a thread has found nothing at a place. True only once.
    mutating func takeMissing(_ place: RetryTarget, by thread: Int32, at now: Instant) -> Bool {
        guard stage(of: thread, at: now) == .came(nothingAt: place) else { return false }
        marks[thread]?.stage = .came(nothingAt: nil)
        return true
    }

    /// Shortens the time for which a thread on its way is expected.
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
