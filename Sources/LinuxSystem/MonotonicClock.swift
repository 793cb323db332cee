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
}
