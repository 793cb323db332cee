// SPDX-License-Identifier: Apache-2.0
import ControlClient
import Glibc
import LinuxSystem
import Synchronization

/// Ends the process if a mount does not answer. A system call on a path in such a mount could wait for ever.
enum Watchdog {
    private static let timeoutSeconds: UInt64 = 10

    /// Runs `body`, which may wait for a daemon.
    ///
    /// If `body` takes longer than 10 s, the process ends with exit code `code` and a message about `subject`. A
    /// separate thread ends the process, because a signal handler cannot interrupt a system call that waits for a file
    /// system.
    static func withDeadline<Value: ~Copyable>(
        exitCode code: Int32 = ExitStatus.timedOut.rawValue, naming subject: String = "the daemon",
        _ body: () throws -> Value
    ) throws -> Value {
        let alarm = try Alarm(code: code, subject: subject)
        try start(alarm)
        defer { alarm.stop() }
        return try body()
    }

    /// Runs `body`, which uses a path in a mount.
    ///
    /// `body` may wait for a claim without a time limit. So every 10 s the mount is asked by statvfs(3), and the
    /// process ends only if the mount does not answer.
    static func whileResponsive<Value: ~Copyable>(to place: [UInt8], _ body: () throws -> Value) throws
        -> Value
    {
        let alarm = try Alarm(code: ExitStatus.timedOut.rawValue, subject: "'\(place.printable)'") {
            // statvfs(3) may wait for ever, so a separate thread calls it.
            BoundedWait.result {
                var status = statvfs()
                return place.withPath { statvfs($0, &status) }
            } != nil
        }
        try start(alarm)
        defer { alarm.stop() }
        return try body()
    }

    /// Starts the thread of an alarm.
    ///
    /// The thread gets no signals. It can last a moment longer than `body`, when the command has blocked the signals in its
    /// own thread to pass them on. A signal that this thread got would then end the process.
    private static func start(_ alarm: Alarm) throws(Errno) {
        try JoinableThread(signals: .blocked) { alarm.wait(seconds: timeoutSeconds) }.detach()
    }

    private final class Alarm: Sendable {
        private let signal: WakeEvent
        private let isStopped = Atomic<Bool>(false)

        private let code: Int32
        private let subject: String
        /// Called when the time is over. Returns true if the process may go on waiting.
        private let isAnswered: @Sendable () -> Bool

        init(
            code: Int32, subject: String, unless isAnswered: @escaping @Sendable () -> Bool = { false }
        ) throws(Errno) {
            self.code = code
            self.isAnswered = isAnswered
            self.subject = subject
            signal = try WakeEvent()
        }

        func stop() {
            isStopped.store(true, ordering: .releasing)
            signal.raise()
        }

        func wait(seconds: UInt64) {
            var end = MonotonicClock.nanoseconds + seconds * 1_000_000_000
            while !isStopped.load(ordering: .acquiring) {
                guard MonotonicClock.nanoseconds < end else {
                    let isTold = isAnswered()
                    // `body` may have ended during the call of `isAnswered`.
                    if isStopped.load(ordering: .acquiring) { return }
                    if isTold {
                        end = MonotonicClock.nanoseconds + seconds * 1_000_000_000
                        continue
                    }
                    LineOutput.say("truce: \(subject) did not answer within \(seconds) s", to: STDERR_FILENO)
                    _exit(code)
                }
                signal.wait(until: end)
            }
        }
    }
}
