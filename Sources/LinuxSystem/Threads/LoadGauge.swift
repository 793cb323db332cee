// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// Tells whether threads of this machine wait for a processor.
package final class LoadGauge: Sendable {
    private let file: OwnedDescriptor

    /// Returns nil if `/proc/loadavg` cannot be opened.
    package init?() {
        let file = open("/proc/loadavg", O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return nil }
        self.file = OwnedDescriptor(adopting: file)
    }

    /// Whether more threads are runnable at this moment than the calling thread has processors.
    ///
    /// This takes two system calls; the kernel counts at each processor.
    package var isOversubscribed: Bool {
        let running = Int(clinux_running(file.rawValue))
        return running < 0 || running > OwnProcess.processors
    }
}
