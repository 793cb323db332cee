// SPDX-License-Identifier: Apache-2.0
package import Coordination
import LinuxSystem
import Synchronization

/// Detects processes that open more than ``many`` documents within ten seconds.
///
/// For each of up to ``processes`` processes, a row contains the times of its last opens. If there is no free row for
/// another process, it gets the row of the process that has opened no document for the longest time.
package struct OpenRate: Sendable {
    /// The limit: the number of documents that a process may open within ``span``.
    package static let many = 200
    package static let span = TimeSpan.seconds(10)
    package static let processes = 64

    private struct Row {
        var process: Int32 = 0
        var count = 0
        var last: UInt32 = 0
    }

    private var rows = [Row](repeating: Row(), count: processes)
    /// The times of the last opens in milliseconds, ``many`` times for each row.
    private var moments = [UInt32](repeating: 0, count: processes * many)
    /// The row that was used last. It is checked before the other rows, because mostly the same process opens many
    /// files in succession.
    private var latest = 0

    package init() {}

    /// Counts one open of a document by a process. Returns true if there were more than ``many`` opens within ``span``.
    /// After that, the count starts at 0 again.
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

/// Programs that are treated as background programs, such as for backup or indexing, although no rule contains their
/// names.
///
/// Each of them opened many documents at the lowest priority: nice 19, SCHED_IDLE, or the idle class of I/O. Such a
/// process stays a background program until it ends or its priority changes.
final class LowPriorityPrograms: Sendable {
    private static let capacity = 64
    /// The processes, in the order in which they were added.
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
