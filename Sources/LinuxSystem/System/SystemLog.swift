// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc
import Synchronization

/// Where a daemon's log lines go. Any thread may write.
///
/// Whoever takes them may be slow, stopped, or wait for the very daemon that writes them; so a daemon has a thread that alone
/// waits for that.
package final class SystemLog: Sendable {
    private struct State {
        /// Nil until there is a thread; until then each line is written at once.
        var writers: WorkerPool?
        var waiting = 0
        var lost = 0
    }

    /// How many lines wait to be taken; what comes when there are as many is lost, and their number is told.
    package static let capacity = 1024

    private let sink: @Sendable (String) -> Void
    private let state = Mutex(State())

    package init(to sink: @escaping @Sendable (String) -> Void) { self.sink = sink }

    package static func standardError() -> SystemLog {
        SystemLog { line in LineOutput.say("truce: \(line)", to: STDERR_FILENO) }
    }

    /// Connects to the system's log; must happen before the mount, which may cover `/dev/log`.
    package static func openSystemLog() -> SystemLog {
        // openlog(3) keeps the pointer, so the name is never freed.
        clinux_open_log(strdup("truce"))
        return SystemLog { line in clinux_log(0, line) }
    }

    /// From now on nobody who writes waits. The thread has the mask of signals of who calls this.
    package func startThread() throws(Errno) {
        let pool = try WorkerPool(threads: 1)
        state.withLock { $0.writers = pool }
    }

    /// Names of files and programs are in it, whoever made them: they end no line, and command no terminal.
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
        if lost > 0 { sink("\(lost) lines of this log were lost: nobody took them in time") }
    }

    /// Waits until everything is written, so long at most.
    package func finish(within span: Duration) {
        let moment = MonotonicClock.nanoseconds + UInt64(span.components.seconds) * 1_000_000_000
        _ = state.withLock { $0.writers }?.finish(until: moment)
    }
}
