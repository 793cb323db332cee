// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// What logind says of the machine's sleep. As long as this is there, the machine waits for ``allowSleep()`` before it sleeps, for as
/// long as logind is set up to wait.
///
/// Used by one thread.
package struct SleepDelayLock: ~Copyable {
    package enum PowerEvent: Sendable {
        /// The machine sleeps as soon as it may.
        case preparingForSleep
        /// It was asleep, or stays awake.
        case isAwake
    }

    private let watch: OpaquePointer
    private let reason: String

    /// Throws `ENOSYS` if there is no library by which to ask logind, and another error if logind does not answer.
    package init(because reason: String) throws(Errno) {
        var watch: OpaquePointer?
        let result = clinux_sleep_open(reason, &watch)
        guard result == 0, let watch else { throw Errno(rawValue: -result) }
        self.watch = watch
        self.reason = reason
    }

    deinit { clinux_sleep_close(watch) }

    /// Waits for news, for so many microseconds at most if any are given.
    package borrowing func next(within microseconds: UInt64? = nil) throws(Errno) -> PowerEvent? {
        let result = clinux_sleep_wait(watch, microseconds ?? .max)
        guard result >= 0 else { throw Errno(rawValue: -result) }
        return switch result {
        case 1: .preparingForSleep
        case 2: .isAwake
        default: nil
        }
    }

    /// The machine need not wait any longer.
    package borrowing func allowSleep() { clinux_sleep_go(watch) }

    /// The next time it is to wait again.
    package borrowing func renewInhibitor() throws(Errno) {
        let result = clinux_sleep_delay(watch, reason)
        guard result == 0 else { throw Errno(rawValue: -result) }
    }
}
