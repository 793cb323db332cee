// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// A delay lock of logind. When the machine is about to sleep, it waits until the process calls ``allowSleep()``.
///
/// The machine waits only while this value exists, and at most for the time in logind's configuration. Only one thread may use
/// the value.
package struct SleepDelayLock: ~Copyable {
    package enum PowerEvent: Sendable {
        /// The machine is about to sleep, and waits for the delay lock.
        case preparingForSleep
        /// The machine is awake: it has slept, or did not go to sleep after all.
        case isAwake
    }

    private let watch: OpaquePointer
    private let reason: String

    /// Takes the delay lock. Throws `ENOSYS` if the library for logind is missing, and another error if logind does not answer.
    package init(because reason: String) throws(Errno) {
        var watch: OpaquePointer?
        let result = clinux_sleep_open(reason, &watch)
        guard result == 0, let watch else { throw Errno(rawValue: -result) }
        self.watch = watch
        self.reason = reason
    }

    deinit { clinux_sleep_close(watch) }

    /// Waits for an event. If `microseconds` is given, waits at most for that time.
    package borrowing func next(within microseconds: UInt64? = nil) throws(Errno) -> PowerEvent? {
        let result = clinux_sleep_wait(watch, microseconds ?? .max)
        guard result >= 0 else { throw Errno(rawValue: -result) }
        return switch result {
        case 1: .preparingForSleep
        case 2: .isAwake
        default: nil
        }
    }

    /// Releases the delay lock, so that the machine can sleep.
    package borrowing func allowSleep() { clinux_sleep_go(watch) }

    /// Takes the delay lock again after a sleep. The machine then also waits before its next sleep.
    package borrowing func renewInhibitor() throws(Errno) {
        let result = clinux_sleep_delay(watch, reason)
        guard result == 0 else { throw Errno(rawValue: -result) }
    }
}
