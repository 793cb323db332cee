// SPDX-License-Identifier: Apache-2.0
import LinuxSystem

/// Identifies a file in the file systems below.
///
/// ext4 may give the inode number of a removed file to a new file immediately. Only the times of birth distinguish the two
/// files. A file that is reached through another mount counts as another file. That mount may be read-only, and its directories
/// have other parents.
struct FileKey: Hashable, Sendable {
    let device: UInt64
    let inode: UInt64
    let mount: UInt64
    /// `born` is the last property because it leaves a part of its last word free. The next property of `Node` then uses this
    /// part.
    let born: FileStatus.Time

    init(device: UInt64, inode: UInt64, mount: UInt64, born: FileStatus.Time) {
        (self.device, self.inode, self.mount, self.born) = (device, inode, mount, born)
    }

    init(_ status: FileStatus) {
        device = status.device
        inode = status.inode
        mount = status.mount
        born = status.born
    }
}
