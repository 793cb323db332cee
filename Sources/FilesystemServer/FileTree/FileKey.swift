// SPDX-License-Identifier: Apache-2.0
import LinuxSystem

/// The identity of a file in the file system below.
///
/// The time of birth tells a reused inode number from its former file: ext4 reuses numbers at once. A file reached through
/// another mount is a different file: that mount may be read-only, and a directory there has other parents.
struct FileKey: Hashable, Sendable {
    let device: UInt64
    let inode: UInt64
    let mount: UInt64
    /// Last, because it ends in the middle of a word: the next property of a node fills the rest.
    let born: FileStatus.Time

    init(_ status: FileStatus) {
        device = status.device
        inode = status.inode
        mount = status.mount
        born = status.born
    }
}
