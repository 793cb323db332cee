// SPDX-License-Identifier: Apache-2.0
import Glibc

/// What `stat(2)` says about a file, as our own value.
///
/// C's `struct stat` never appears in a signature: clang attributes it to whichever module's header
/// included it first, so it does not travel between modules (swift-system hit the same wall).
package struct FileStatus: Sendable {
    package struct Time: Sendable {
        package var seconds: Int
        package var nanoseconds: Int
    }

    package var device: UInt64
    package var inode: UInt64
    /// Kind and permissions, as the kernel packs them.
    package var mode: UInt32
    package var linkCount: UInt64
    package var user: UInt32
    package var group: UInt32
    package var specialDevice: UInt64
    package var size: Int
    package var blockSize: Int
    package var blocks: Int
    package var accessed: Time
    package var modified: Time
    package var changed: Time
}

extension FileStatus {
    init(_ status: stat) {
        self.init(
            device: UInt64(status.st_dev), inode: UInt64(status.st_ino), mode: status.st_mode,
            linkCount: UInt64(status.st_nlink), user: status.st_uid, group: status.st_gid,
            specialDevice: UInt64(status.st_rdev), size: status.st_size, blockSize: status.st_blksize,
            blocks: status.st_blocks, accessed: Time(status.st_atim), modified: Time(status.st_mtim),
            changed: Time(status.st_ctim))
    }
}

extension FileStatus.Time {
    init(_ time: timespec) { self.init(seconds: time.tv_sec, nanoseconds: time.tv_nsec) }
}
