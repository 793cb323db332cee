// SPDX-License-Identifier: Apache-2.0
import ControlClient
import Glibc
import LinuxSystem
import Synchronization

/// Ends the process if a mount does not answer. System calls have no time limit, and a path may lead through a mount that
/// hangs.
enum Watchdog {
    private static let timeoutSeconds: UInt64 = 10

    /// Runs `body`, which may wait for a daemon.
    ///
    /// If `body` takes longer than 10 s, the process ends with exit code `code` and a message that names `subject`. A separate
    /// thread ends the process, because a caught signal does not end a system call that waits for a file system.
    static func withDeadline<Value: ~Copyable>(
        exitCode code: Int32 = ExitStatus.timedOut.rawValue, naming subject: String = "the daemon",
        _ body: () throws -> Value
    ) throws -> Value {
        let alarm = try Alarm(code: code, subject: subject)
        try JoinableThread { alarm.wait(seconds: timeoutSeconds) }.detach()
        defer { alarm.stop() }
        return try body()
    }

    /// Runs `body`, which uses a path in a mount.
    ///
    /// A claim at the path may wait without limit. So the process ends after 10 s only if the mount at the path does not even
    /// answer statvfs(3).
    static func whileResponsive<Value: ~Copyable>(to place: [UInt8], _ body: () throws -> Value) throws
        -> Value
    {
        let alarm = try Alarm(code: ExitStatus.timedOut.rawValue, subject: "'\(place.printable)'") {
            // A separate thread calls statvfs(3), because the call may wait for ever.
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
        /// The alarm calls this at the deadline; true if the process may go on waiting.
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
                    // `body` may have ended while the alarm waited for the answer.
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
