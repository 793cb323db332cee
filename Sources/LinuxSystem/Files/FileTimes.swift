// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// The resolution of the times with which a file system records changes.
package enum FileTimes {
    /// Magic numbers from include/uapi/linux/magic.h: the four file systems with multigrain times since Linux 6.13.
    private static let multigrain: Set<Int64> = [ext, 0x5846_5342, 0x9123_683E, tmpfs]
    /// ext4, ext2 and ext3; small inodes have room neither for fractions of a second nor for the time of birth.
    private static let ext: Int64 = 0xEF53
    private static let tmpfs: Int64 = 0x0102_1994

    /// Returns whether each change after a read of a file's times alters the times, on the file system of `root`.
    package static func detectEveryChange(
        on filesystem: FilesystemStatus, below root: borrowing OwnedDescriptor
    ) -> Bool {
        guard multigrain.contains(filesystem.magic), kernel >= (6, 13) else { return false }
        return filesystem.magic != ext || clinux_records_birth(root.rawValue) == 1
    }

    /// Returns whether the first store to a mapped page alters the times as well.
    ///
    /// tmpfs writes to no disk, so it need not notice the store: it maps a page that was read as writable.
    package static func detectMappedStores(on filesystem: FilesystemStatus) -> Bool {
        filesystem.magic != tmpfs
    }

    /// Returns how long, in nanoseconds, a file's times may stay the same although it changes.
    ///
    /// It applies where ``detectEveryChange(on:below:)`` returns false.
    ///
    /// Most file systems use the kernel's tick, which lasts at most 10 ms. Times without fractions of a second may be FAT's,
    /// with a resolution of two seconds. On ext4 with small inodes, and on some servers, the resolution is one second.
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
