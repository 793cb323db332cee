// SPDX-License-Identifier: Apache-2.0
// `timespec` comes from one of these two modules, depending on which the compiler builds first.
import CLinux
import Glibc

/// The time of day, for output to people. No deadline is computed with this clock, because it can be set.
package enum WallClock {
    /// The present time in nanoseconds since 1970: `clock_gettime(2)` with `CLOCK_REALTIME`.
    package static func nanoseconds() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }

    /// A moment in nanoseconds since 1970, in the local time of this machine, such as `14:02:11`. On another day than today, the
    /// date comes first.
    package static func timeOfDay(atNanoseconds nanoseconds: Int64) -> String {
        let (then, now) = (local(nanoseconds), local(Self.nanoseconds()))
        let clock = [then.tm_hour, then.tm_min, then.tm_sec].map(twoDigits).joined(separator: ":")
        if then.tm_year == now.tm_year, then.tm_yday == now.tm_yday { return clock }
        return "\(then.tm_year + 1900)-\(twoDigits(then.tm_mon + 1))-\(twoDigits(then.tm_mday)) \(clock)"
    }

    private static func local(_ nanoseconds: Int64) -> tm {
        var (seconds, parts) = (time_t(nanoseconds / 1_000_000_000), tm())
        localtime_r(&seconds, &parts)
        return parts
    }

    private static func twoDigits(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }

    /// The present time in nanoseconds since the start of the machine: `clock_gettime(2)` with `CLOCK_BOOTTIME`.
    ///
    /// No program can set this clock, and it goes on while the machine sleeps.
    package static func bootNanoseconds() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}
