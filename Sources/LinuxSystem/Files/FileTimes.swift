// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// How finely a file system tells changes apart.
package enum FileTimes {
    /// From include/uapi/linux/magic.h; the four that use multigrain times since Linux 6.13.
    private static let multigrain: Set<Int64> = [ext, 0x5846_5342, 0x9123_683E, tmpfs]
    /// ext4, and ext2 and ext3 of old, whose small inodes have room neither for parts of a second nor for the time of birth.
    private static let ext: Int64 = 0xEF53
    private static let tmpfs: Int64 = 0x0102_1994

    /// Whether a change on a file system, that of `root`, which follows a look at the times always shows in them.
    package static func detectEveryChange(
        on filesystem: FilesystemStatus, below root: borrowing OwnedDescriptor
    ) -> Bool {
        guard multigrain.contains(filesystem.magic), kernel >= (6, 13) else { return false }
        return filesystem.magic != ext || clinux_records_birth(root.rawValue) == 1
    }

    /// Whether the first store to a page that is mapped shows in them as well. What has no disk to be written to need not know of
    /// it: tmpfs maps a page that was read so that it can be stored to.
    package static func detectMappedStores(on filesystem: FilesystemStatus) -> Bool {
        filesystem.magic != tmpfs
    }

    /// How long, in nanoseconds, a file's times may stay as they are though it is changed, on a file system where they are not
    /// fine.
    ///
    /// Most count in the kernel's ticks, of which the longest is 10 ms. Where there are no parts of a second they may be FAT's,
    /// which are two seconds apart; or one, as on ext4 with small inodes and on some servers.
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
