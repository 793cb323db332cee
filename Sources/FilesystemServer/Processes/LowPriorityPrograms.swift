// SPDX-License-Identifier: Apache-2.0
package import Coordination
import LinuxSystem
import Synchronization

/// Detects processes that open more than ``many`` documents in ten seconds.
///
/// It remembers the times of the last opens for a number of processes. The process with the oldest last open makes room for
/// another.
package struct OpenRate: Sendable {
    /// The limit: more opens than this within ``span`` are many.
    package static let many = 200
    package static let span = TimeSpan.seconds(10)
    package static let processes = 64

    private struct Row {
        var process: Int32 = 0
        var count = 0
        var last: UInt32 = 0
    }

    private var rows = [Row](repeating: Row(), count: processes)
    /// The times in milliseconds, ``many`` for each row.
    private var moments = [UInt32](repeating: 0, count: processes * many)
    /// The last row: mostly one process opens many files in succession.
    private var latest = 0

    package init() {}

    /// Counts an open of a document. Returns true after more than ``many`` within ``span``, and then counts anew.
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

/// Backup and indexing programs that are in no table. They opened many documents at the lowest priority: nice 19,
/// SCHED_IDLE, or the I/O class idle.
///
/// A program counts as such until it ends or its priority changes.
final class LowPriorityPrograms: Sendable {
    private static let capacity = 64
    /// In order of arrival, the latest last.
    private let programs = Mutex<[ProcessID]>([])

    /// Adds a process. Returns whether it is new.
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
