// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// CLOCK_MONOTONIC, which stands still while the machine is suspended: a suspended machine is late for nothing.
package enum MonotonicClock {
    /// Nanoseconds since some moment before this process.
    package static var nanoseconds: UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }

    /// The moment of the kernel's last tick, at most 10 ms ago: it is read from memory, without asking a counter.
    ///
    /// Kernels before 6.15 may give an earlier moment than a little before, by some microseconds, after the clock's rate was
    /// corrected ("timekeeping: Prevent coarse clocks going backwards").
    package static var lastTick: UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC_COARSE, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
}
