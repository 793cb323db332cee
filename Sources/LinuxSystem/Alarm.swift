// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// A time after which a sleeping thread goes on. To set it wakes nobody, and costs one system call.
///
/// All functions may be called from any thread.
package struct Alarm: ~Copyable, Sendable {
    private let descriptor: OwnedDescriptor

    package init() throws(Errno) {
        descriptor = OwnedDescriptor(adopting: try retryingOnInterrupt { clinux_alarm_open() })
    }

    /// Replaces what was set before. With 0 it goes off at once.
    package func set(after nanoseconds: UInt64) {
        // Zero would disarm it. It fails for no time there is.
        _ = clinux_alarm_set(descriptor.rawValue, max(nanoseconds, 1))
    }

    /// Sleeps until it goes off; of several threads one goes on.
    package func wait() {
        var times: UInt64 = 0
        while read(descriptor.rawValue, &times, MemoryLayout<UInt64>.size) < 0, errno == EINTR {}
    }
}
