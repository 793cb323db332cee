// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// The time that the calling thread has spent on a processor. What it waited does not count.
package enum ThreadClock {
    /// Nanoseconds since the thread began, `clock_gettime(2)` with `CLOCK_THREAD_CPUTIME_ID`.
    package static func nanoseconds() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
}
