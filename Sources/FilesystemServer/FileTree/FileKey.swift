// SPDX-License-Identifier: Apache-2.0
import LinuxSystem

/// Identifies a file in the file systems below.
///
/// ext4 gives the inode number of a removed file to another file at once; the two files differ in their times of birth. A file
/// that is reached through another mount counts as another file. The other mount may be read-only, and a directory of it has
/// other parents.
struct FileKey: Hashable, Sendable {
    let device: UInt64
    let inode: UInt64
    let mount: UInt64
    /// `born` is the last property because it does not fill its last word. So the next property of `Node` uses the rest of the
    /// word.
    let born: FileStatus.Time

    init(_ status: FileStatus) {
        device = status.device
        inode = status.inode
        mount = status.mount
        born = status.born
    }
}
