// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// Finds out whether threads of this machine wait for a processor.
package final class LoadGauge: Sendable {
    private let file: OwnedDescriptor

    /// Opens `/proc/loadavg`. Returns nil if the file cannot be opened.
    package init?() {
        let file = open("/proc/loadavg", O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return nil }
        self.file = OwnedDescriptor(adopting: file)
    }

    /// Whether there are more runnable threads now than processors on which the calling thread may run.
    ///
    /// To read this value takes two system calls, in which the kernel adds up the runnable threads of all processors.
    package var isOversubscribed: Bool {
        let running = Int(clinux_running(file.rawValue))
        return running < 0 || running > OwnProcess.processors
    }
}
