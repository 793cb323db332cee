// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// How exactly a file system records the times of changes.
package enum FileTimes {
    /// The four file systems that record precise times since Linux 6.13 (multigrain), by the numbers in `linux/magic.h`.
    private static let multigrain: Set<Int64> = [ext, 0x5846_5342, 0x9123_683E, tmpfs]
    /// The number of ext4, ext2 and ext3. If the inodes of such a file system are small, they contain no fractions of a second
    /// and no time of birth.
    private static let ext: Int64 = 0xEF53
    private static let tmpfs: Int64 = 0x0102_1994

    /// Returns whether each change gives a file new times, if the times were read after the previous change.
    package static func detectEveryChange(
        on filesystem: FilesystemStatus, below root: borrowing OwnedDescriptor
    ) -> Bool {
        guard multigrain.contains(filesystem.magic), kernel >= (6, 13) else { return false }
        return filesystem.magic != ext || clinux_records_birth(root.rawValue) == 1
    }

    /// Returns whether the first write to a mapped page changes the file's times.
    ///
    /// On tmpfs it does not, because tmpfs can map a page as writable after a mere read.
    package static func detectMappedStores(on filesystem: FilesystemStatus) -> Bool {
        filesystem.magic != tmpfs
    }

    /// Returns the time in nanoseconds within which two changes of a file can have the same times.
    ///
    /// The value applies only if ``detectEveryChange(on:below:)`` returns false.
    ///
    /// Most file systems record the time of the kernel's last tick, and a tick lasts at most 10 ms. Times without fractions of
    /// a second can come from FAT, with a resolution of two seconds. On ext4 with small inodes, and on some servers, times are
    /// in whole seconds.
    package static func granularity(of status: FileStatus) -> Int64 {
        status.modified.nanoseconds == 0 ? 2_000_000_000 : 10_000_000
    }

    private static var kernel: (Int, Int) {
        var name = utsname()
        guard uname(&name) == 0 else { return (0, 0) }
        let release = withUnsafeBytes(of: name.release) {
            String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
        }
        let parts = release.split { !$0.isNumber }.prefix(2).map { Int($0) ?? 0 }
        return parts.count == 2 ? (parts[0], parts[1]) : (0, 0)
    }
}
