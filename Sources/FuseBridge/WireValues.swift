// SPDX-License-Identifier: Apache-2.0
import CFuse
import Glibc
import LinuxSystem

// Conversions between the values of this module and the C structures of libfuse.

extension stat {
    init(_ status: FileStatus) {
        self.init()
        st_dev = UInt(status.device)
        st_ino = UInt(status.inode)
        st_mode = status.mode
        st_nlink = UInt(status.linkCount)
        st_uid = status.user
        st_gid = status.group
        st_rdev = UInt(status.specialDevice)
        // A file system below may report any number, and the conversion must not trap.
        st_size = Int(truncatingIfNeeded: status.size)
        st_blksize = Int(status.blockSize)
        st_blocks = Int(truncatingIfNeeded: status.blocks)
        st_atim = timespec(status.accessed)
        st_mtim = timespec(status.modified)
        st_ctim = timespec(status.changed)
    }
}

extension timespec {
    fileprivate init(_ time: FileStatus.Time) {
        self.init(tv_sec: Int(time.seconds), tv_nsec: Int(time.nanoseconds))
    }
}

extension statvfs {
    init(_ status: FilesystemStatus) {
        self.init()
        f_bsize = UInt(status.blockSize)
        f_frsize = UInt(status.fragmentSize)
        f_blocks = UInt(status.blocks)
        f_bfree = UInt(status.freeBlocks)
        f_bavail = UInt(status.availableBlocks)
        f_files = UInt(status.files)
        f_ffree = UInt(status.freeFiles)
        f_favail = UInt(status.freeFiles)
        f_namemax = UInt(status.longestName)
    }
}

extension fuse_entry_param {
    init(
        _ node: NodeID, generation: UInt32, _ status: FileStatus, names: Validity, attributes: Validity
    ) {
        self.init()
        ino = node.rawValue
        self.generation = UInt64(generation)
        attr = stat(status)
        attr_timeout = attributes.seconds
        entry_timeout = names.seconds
    }
}

extension AttributeChange {
    init(_ status: stat, which: CInt) {
        func has(_ bit: CInt) -> Bool { which & bit != 0 }
        if has(FUSE_SET_ATTR_MODE) { mode = status.st_mode }
        if has(FUSE_SET_ATTR_UID) { user = status.st_uid }
        if has(FUSE_SET_ATTR_GID) { group = status.st_gid }
        if has(FUSE_SET_ATTR_SIZE) { size = Int64(status.st_size) }
        if has(FUSE_SET_ATTR_ATIME) { accessed = .set(FileStatus.Time(status.st_atim)) }
        if has(FUSE_SET_ATTR_ATIME_NOW) { accessed = .now }
        if has(FUSE_SET_ATTR_MTIME) { modified = .set(FileStatus.Time(status.st_mtim)) }
        if has(FUSE_SET_ATTR_MTIME_NOW) { modified = .now }
    }
}

extension FileStatus.Time {
    fileprivate init(_ time: timespec) {
        self.init(seconds: Int64(time.tv_sec), nanoseconds: UInt32(time.tv_nsec))
    }
}
