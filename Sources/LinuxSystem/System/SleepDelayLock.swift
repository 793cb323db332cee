// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// A delay lock of logind: the machine waits for ``allowSleep()`` before it sleeps.
///
/// It waits while this value exists, and at most as long as logind's configuration allows. One thread only may use it.
package struct SleepDelayLock: ~Copyable {
    package enum PowerEvent: Sendable {
        /// The machine goes to sleep after the delay.
        case preparingForSleep
        /// The machine has slept, or stays awake.
        case isAwake
    }

    private let watch: OpaquePointer
    private let reason: String

    /// Throws `ENOSYS` if the library to reach logind is missing, and another error if logind does not answer.
    package init(because reason: String) throws(Errno) {
        var watch: OpaquePointer?
        let result = clinux_sleep_open(reason, &watch)
        guard result == 0, let watch else { throw Errno(rawValue: -result) }
        self.watch = watch
        self.reason = reason
    }

    deinit { clinux_sleep_close(watch) }

    /// Waits for an event, or for `microseconds` if they are given.
    package borrowing func next(within microseconds: UInt64? = nil) throws(Errno) -> PowerEvent? {
        let result = clinux_sleep_wait(watch, microseconds ?? .max)
        guard result >= 0 else { throw Errno(rawValue: -result) }
        return switch result {
        case 1: .preparingForSleep
        case 2: .isAwake
        default: nil
        }
    }

    /// Lets the machine sleep.
    package borrowing func allowSleep() { clinux_sleep_go(watch) }

    /// Takes the delay lock again, for the next sleep.
    package borrowing func renewInhibitor() throws(Errno) {
        let result = clinux_sleep_delay(watch, reason)
        guard result == 0 else { throw Errno(rawValue: -result) }
    }
}
