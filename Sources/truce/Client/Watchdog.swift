// SPDX-License-Identifier: Apache-2.0
import ControlClient
import Glibc
import LinuxSystem
import Synchronization

/// Ends the command if a mount does not answer: paths lead through it, and system calls have no time limit.
enum Watchdog {
    private static let timeoutSeconds: UInt64 = 10

    /// Runs `body`, which may wait for a daemon. After 10 s the process ends, with exit code `code` and a sentence about
    /// `subject`.
    ///
    /// A thread does this, not a signal. A caught signal does not end a wait for a file system; the end of the process does.
    static func withDeadline<Value: ~Copyable>(
        exitCode code: Int32 = ExitStatus.timedOut.rawValue, naming subject: String = "the daemon",
        _ body: () throws -> Value
    ) throws -> Value {
        let alarm = try Alarm(code: code, subject: subject)
        try JoinableThread { alarm.wait(seconds: timeoutSeconds) }.detach()
        defer { alarm.stop() }
        return try body()
    }

    /// Runs `body` at a path that may be in a mount, where a claim may wait without limit. The process ends as above, but only
    /// if the path does not answer at all.
    static func whileResponsive<Value: ~Copyable>(to place: [UInt8], _ body: () throws -> Value) throws
        -> Value
    {
        let alarm = try Alarm(code: ExitStatus.timedOut.rawValue, subject: "'\(place.printable)'") {
            // Another thread asks, because the call may wait for ever.
            BoundedWait.result {
                var status = statvfs()
                return place.withPath { statvfs($0, &status) }
            } != nil
        }
        try JoinableThread { alarm.wait(seconds: timeoutSeconds) }.detach()
        defer { alarm.stop() }
        return try body()
    }

    private final class Alarm: Sendable {
        private let signal: WakeEvent
        private let isStopped = Atomic<Bool>(false)

        private let code: Int32
        private let subject: String
        /// Called at the deadline; true if the wait may go on.
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
                    // `body` may have ended during the call.
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
