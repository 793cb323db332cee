// SPDX-License-Identifier: Apache-2.0
// Which of the two modules provides `timespec` depends on their build order.
import CLinux
import Glibc

/// The time of day, for output to people; never for deadlines.
package enum WallClock {
    /// Nanoseconds since 1970, `clock_gettime(2)` with `CLOCK_REALTIME`.
    package static func nanoseconds() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }

    /// Nanoseconds since the start of the machine, `clock_gettime(2)` with `CLOCK_BOOTTIME`.
    ///
    /// No program can set this clock, and it goes on while the machine sleeps.
    package static func bootNanoseconds() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}
