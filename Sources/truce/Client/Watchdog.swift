// SPDX-License-Identifier: Apache-2.0
import ControlClient
import Glibc
import LinuxSystem
import Synchronization

/// Ends the command if a mount does not answer: paths lead through it, and no system call has a time limit.
enum Watchdog {
    private static let timeoutSeconds: UInt64 = 10

    /// Does something that may wait for a daemon; after 10 s the process ends, with the code for it and a sentence about
    /// `subject`.
    ///
    /// By a thread and not by a signal: a caught signal does not end a wait for a file system, the end of the
    /// process does.
    static func withDeadline<Value: ~Copyable>(
        exitCode code: Int32 = ExitStatus.timedOut.rawValue, naming subject: String = "the daemon",
        _ body: () throws -> Value
    ) throws -> Value {
        let alarm = try Alarm(code: code, subject: subject)
        try JoinableThread { alarm.wait(seconds: timeoutSeconds) }.detach()
        defer { alarm.stop() }
        return try body()
    }

    /// Does something at a place that may be in a mount, where a turn may be waited for as long as it takes. The process ends
    /// as above, but only if nothing at all is answered there.
    static func whileResponsive<Value: ~Copyable>(to place: [UInt8], _ body: () throws -> Value) throws
        -> Value
    {
        let alarm = try Alarm(code: ExitStatus.timedOut.rawValue, subject: "'\(place.printable)'") {
            // Another thread asks, since the question may wait for ever.
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
        /// Whether there is time left, when it is up.
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
                    // It may have ended while the question was asked.
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
