// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// CLOCK_MONOTONIC, which stops while the machine is suspended. So no time limit ends during a suspension.
package enum MonotonicClock {
    /// The present time in nanoseconds since a moment before this process started.
    package static var nanoseconds: UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }

    /// The time of the kernel's last tick, which is at most 10 ms ago. To read it is fast, because the kernel has it in memory
    /// and reads no hardware counter.
    ///
    /// Before Linux 6.15 this clock can go back by some microseconds after a correction of the clock's rate ("timekeeping:
    /// Prevent coarse clocks going backwards").
    package static var lastTick: UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC_COARSE, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
}
