// SPDX-License-Identifier: Apache-2.0
import CFuse
import Glibc
import LinuxSystem

// From our values to C's: libfuse's own structures, and those it does not know.

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
        st_size = status.size
        st_blksize = status.blockSize
        st_blocks = status.blocks
        st_atim = timespec(status.accessed)
        st_mtim = timespec(status.modified)
        st_ctim = timespec(status.changed)
    }
}

extension timespec {
    fileprivate init(_ time: FileStatus.Time) {
        self.init(tv_sec: time.seconds, tv_nsec: time.nanoseconds)
    }
}

extension fuse_entry_param {
    init(_ node: NodeID, _ status: FileStatus) {
        self.init()
        ino = node.rawValue
        attr = stat(status)
        attr_timeout = Validity.long.rawValue
        entry_timeout = Validity.long.rawValue
    }
}

extension cfuse_open_out {
    private static let noFlush: UInt32 = 1 << 5
    private static let passthrough: UInt32 = 1 << 7

    init(_ handle: UInt64, _ backing: BackingID) {
        self.init(fh: handle, open_flags: Self.passthrough | Self.noFlush, backing_id: backing.rawValue)
    }
}

extension cfuse_entry_out {
    init(_ node: NodeID, _ status: FileStatus) {
        self.init()
        nodeid = node.rawValue
        entry_valid = UInt64(Validity.long.rawValue)
        attr_valid = UInt64(Validity.long.rawValue)
        attr = cfuse_attr(status)
    }
}

extension cfuse_attr {
    fileprivate init(_ status: FileStatus) {
        self.init(
            ino: status.inode, size: UInt64(status.size), blocks: UInt64(status.blocks),
            atime: UInt64(bitPattern: Int64(status.accessed.seconds)),
            mtime: UInt64(bitPattern: Int64(status.modified.seconds)),
            ctime: UInt64(bitPattern: Int64(status.changed.seconds)),
            atimensec: UInt32(status.accessed.nanoseconds), mtimensec: UInt32(status.modified.nanoseconds),
            ctimensec: UInt32(status.changed.nanoseconds), mode: status.mode,
            nlink: UInt32(truncatingIfNeeded: status.linkCount), uid: status.user, gid: status.group,
            rdev: UInt32(truncatingIfNeeded: status.specialDevice), blksize: UInt32(status.blockSize),
            flags: 0)
    }
}
