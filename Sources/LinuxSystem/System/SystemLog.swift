// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc
import Synchronization

/// The log of a daemon. Any thread may write to it.
///
/// The reader of the log can be slow or stopped, or can itself wait for the daemon. So only one thread of the daemon waits for
/// the reader. All other threads pass their lines to that thread.
package final class SystemLog: Sendable {
    private struct State {
        /// The thread that writes lines; nil until it starts. Before that, each thread writes its lines itself, and waits for
        /// the reader.
        var writers: WorkerPool?
        var waiting = 0
        var lost = 0
    }

    /// The maximum number of lines that wait to be written. Further lines are lost, and the log says how many were lost.
    package static let capacity = 1024

    private let sink: @Sendable (String) -> Void
    private let state = Mutex(State())

    package init(to sink: @escaping @Sendable (String) -> Void) { self.sink = sink }

    package static func standardError() -> SystemLog {
        SystemLog { line in LineOutput.say("truce: \(line)", to: STDERR_FILENO) }
    }

    /// Connects to the system log. Callers do this before the mount exists, because the mount can cover `/dev/log`.
    package static func openSystemLog() -> SystemLog {
        // openlog(3) stores the pointer to the name, so the name is never freed.
        clinux_open_log(strdup("truce"))
        return SystemLog { line in clinux_log(0, line) }
    }

    /// Starts the thread that writes lines. From then on, other threads do not wait for the reader of the log. The new thread
    /// inherits the caller's signal mask.
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
