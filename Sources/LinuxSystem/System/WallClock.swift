// SPDX-License-Identifier: Apache-2.0
// Which of the two modules brings `timespec` depends on the order in which they were built.
import CLinux
import Glibc

/// The time of day, for what people read; never for deadlines.
package enum WallClock {
    /// Nanoseconds since 1970, `clock_gettime(2)` with `CLOCK_REALTIME`.
    package static func nanoseconds() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }

    /// Nanoseconds since the machine was started, `clock_gettime(2)` with `CLOCK_BOOTTIME`: nobody sets that, and it goes on while the
    /// machine sleeps.
    package static func bootNanoseconds() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}
