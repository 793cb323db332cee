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

    /// The present time in nanoseconds since the start of the machine: `clock_gettime(2)` with `CLOCK_BOOTTIME`.
    ///
    /// No program can set this clock, and it goes on while the machine sleeps.
    package static func bootNanoseconds() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}
