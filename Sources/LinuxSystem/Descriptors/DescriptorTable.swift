// SPDX-License-Identifier: Apache-2.0
import Glibc

/// The kernel's table of this process's descriptors.
package enum DescriptorTable {
    /// Makes the kernel enlarge the table for `count` descriptors, or for `RLIMIT_NOFILE` if that limit is lower.
    ///
    /// Callers call this method while the process has a single thread. Later, an enlargement is slow: the thread that needs the
    /// next descriptor waits until no processor uses the old table. That wait took 4 to 20 ms (`expand_fdtable` in the kernel's
    /// `fs/file.c`). The table never shrinks, and uses eight bytes for each descriptor.
    package static func reserve(_ count: Int) throws(Errno) {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { throw .last }
        let last = min(count, Int(clamping: limit.rlim_cur)) - 1
        let some = OwnedDescriptor(
            adopting: try retryingOnInterrupt { open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC) })
        guard last > some.rawValue else { return }
        let highest = fcntl(some.rawValue, F_DUPFD_CLOEXEC, CInt(clamping: last))
        guard highest >= 0 else { throw .last }
        close(highest)
    }
}
