// SPDX-License-Identifier: Apache-2.0
package import Coordination
import LinuxSystem
import Synchronization

/// How many documents each process has opened in the last ten seconds, as far as it is about ``many``.
///
/// It remembers when the last ones were opened, of a number of processes. A process that has not opened a file for the
/// longest time makes room for another.
package struct OpenRate: Sendable {
    /// More than so many in ``span`` are many.
    package static let many = 200
    package static let span = TimeSpan.seconds(10)
    package static let processes = 64

    private struct Row {
        var process: Int32 = 0
        var count = 0
        var last: UInt32 = 0
    }

    private var rows = [Row](repeating: Row(), count: processes)
    /// In milliseconds, ``many`` for each row.
    private var moments = [UInt32](repeating: 0, count: processes * many)
    /// Mostly one process opens many files in a row.
    private var latest = 0

    package init() {}

    /// A process opens a document; whether it has opened more than ``many`` in ``span``. Then the count begins anew.
    package mutating func note(_ process: Int32, at now: Instant) -> Bool {
        let moment = UInt32(truncatingIfNeeded: now.nanoseconds / 1_000_000)
        if rows[latest].process != process { latest = row(of: process, at: moment) }
        let count = rows[latest].count
        let place = latest * Self.many + count % Self.many
        let isQuick =
            count >= Self.many && UInt64(moment &- moments[place]) <= Self.span.milliseconds
        moments[place] = moment
        rows[latest].last = moment
        rows[latest].count = isQuick ? 0 : count + 1
        return isQuick
    }

    private mutating func row(of process: Int32, at moment: UInt32) -> Int {
        var oldest = 0
        for index in rows.indices {
            if rows[index].process == process { return index }
            if moment &- rows[index].last > moment &- rows[oldest].last { oldest = index }
        }
        rows[oldest] = Row(process: process, last: moment)
        return oldest
    }
}

/// Backup and indexing programs that no table names: they have opened many documents while the kernel ran them last of all (nice
/// 19, SCHED_IDLE, or the I/O class idle).
///
/// A program counts as one until it ends, or until its priority is another one.
final class LowPriorityPrograms: Sendable {
    private static let capacity = 64
    /// The latest at the end.
    private let programs = Mutex<[ProcessID]>([])

    /// Whether it is new here.
    func insert(_ process: ProcessID) -> Bool {
        programs.withLock { programs in
            guard !programs.contains(process) else { return false }
            if programs.count >= Self.capacity { programs.removeFirst() }
            programs.append(process)
            return true
        }
    }

    func contains(_ process: ProcessID) -> Bool {
        guard programs.withLock({ $0.contains(process) }) else { return false }
        if ProcessInspection.hasLowestPriority(process.number) { return true }
        programs.withLock { $0.removeAll { $0 == process } }
        return false
    }
}
