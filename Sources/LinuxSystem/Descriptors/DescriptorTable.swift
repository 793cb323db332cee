// SPDX-License-Identifier: Apache-2.0
import Glibc

/// The kernel's table of this process' descriptors.
package enum DescriptorTable {
    /// Has it made for as many descriptors, or for all that there may be if those are fewer (`RLIMIT_NOFILE`).
    ///
    /// To be called before the first thread starts. The table doubles when it is full, and in a process of several threads
    /// whoever needs the next descriptor waits until no processor reads the former table any more (`expand_fdtable` in the
    /// kernel's `fs/file.c`): 4 to 20 ms were measured. It never shrinks. One descriptor takes eight bytes of it.
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
