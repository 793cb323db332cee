// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc
import Synchronization

/// The log of a daemon, to which any thread may write.
///
/// The reader of the log may be slow, stopped, or itself wait for the daemon. So one thread of the daemon waits for the reader,
/// and all other threads only hand over their lines.
package final class SystemLog: Sendable {
    private struct State {
        /// The thread that writes lines; nil until it starts. Until then the thread that writes a line waits for the reader
        /// itself.
        var writers: WorkerPool?
        var waiting = 0
        var lost = 0
    }

    /// The maximum number of lines that wait to be written. Further lines are lost, and the log states how many.
    package static let capacity = 1024

    private let sink: @Sendable (String) -> Void
    private let state = Mutex(State())

    package init(to sink: @escaping @Sendable (String) -> Void) { self.sink = sink }

    package static func standardError() -> SystemLog {
        SystemLog { line in LineOutput.say("truce: \(line)", to: STDERR_FILENO) }
    }

    /// Connects to the system log. Callers do this before the mount exists, because the mount may cover `/dev/log`.
    package static func openSystemLog() -> SystemLog {
        // openlog(3) stores the pointer to the name, so the name is never freed.
        clinux_open_log(strdup("truce"))
        return SystemLog { line in clinux_log(0, line) }
    }

    /// Starts the thread that writes lines, so that other threads no longer wait. The thread inherits the caller's signal mask.
    package func startThread() throws(Errno) {
        let pool = try WorkerPool(threads: 1)
        state.withLock { $0.writers = pool }
    }

    /// Writes a line. The name of a file or program in the line can neither end the line nor control a terminal.
    package func write(_ line: String) {
        let line = line.printable
        let (writers, isTaken): (WorkerPool?, Bool) = state.withLock { state in
            guard state.writers != nil else { return (nil, true) }
            guard state.waiting < Self.capacity else {
                state.lost += 1
                return (nil, false)
            }
            state.waiting += 1
            return (state.writers, true)
        }
        if let writers { writers.run { [self] in pass(line) } } else if isTaken { sink(line) }
    }

    private func pass(_ line: String) {
        sink(line)
        let lost = state.withLock { state in
            state.waiting -= 1
            defer { state.lost = 0 }
            return state.lost
        }
        if lost > 0 { sink("\(lost) lines of this log were lost: the system log did not take them in time") }
    }

    /// Waits until the log's thread has written all lines, or until `span` is over.
    package func finish(within span: Duration) {
        let moment = MonotonicClock.nanoseconds + UInt64(span.components.seconds) * 1_000_000_000
        _ = state.withLock { $0.writers }?.finish(until: moment)
    }
}
