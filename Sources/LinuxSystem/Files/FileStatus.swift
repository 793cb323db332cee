// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// The result of `statx(2)` for a file.
///
/// A C structure such as `struct stat` could not be passed between modules. clang assigns it to the module that included its
/// header first. So this is a Swift structure.
package struct FileStatus: Sendable, Equatable {
    package struct Time: Sendable, Hashable {
        package var seconds: Int64
        package var nanoseconds: UInt32

        package init(seconds: Int64, nanoseconds: UInt32) {
            self.seconds = seconds
            self.nanoseconds = nanoseconds
        }
    }

    /// File attributes, such as immutable, that forbid operations which an `O_PATH` descriptor would otherwise allow.
    package struct Attributes: OptionSet, Sendable {
        package let rawValue: UInt64
        package init(rawValue: UInt64) { self.rawValue = rawValue }
        package static var appendOnly: Self { Self(rawValue: CLINUX_ATTR_APPEND) }
        static var all: Self {
            Self(rawValue: CLINUX_ATTR_IMMUTABLE | CLINUX_ATTR_APPEND | CLINUX_ATTR_VERITY)
        }
    }

    package var device: UInt64
    package var inode: UInt64
    /// The kind of file and its permissions, in the kernel's encoding.
    package var mode: UInt32
    package var linkCount: UInt64
    package var user: UInt32
    package var group: UInt32
    package var specialDevice: UInt64
    package var size: UInt64
    package var blockSize: UInt32
    package var blocks: UInt64
    package var accessed: Time
    package var modified: Time
    package var changed: Time
    /// The time when the file was created; zero if the file system does not record this time.
    package var born: Time
    package var attributes: Attributes
    /// The number of the mount by which the descriptor was opened.
    package var mount: UInt64

    package var kind: UInt32 { mode & S_IFMT }
    package var isDirectory: Bool { kind == S_IFDIR }
    package var isRegularFile: Bool { kind == S_IFREG }
    package var isSymbolicLink: Bool { kind == S_IFLNK }
    /// Whether an attribute, such as immutable, forbids operations that an `O_PATH` descriptor would otherwise allow.
    package var isProtected: Bool { attributes.rawValue & Attributes.all.rawValue != 0 }
    /// Whether the directory has the sticky bit. With this bit, only the owner of a file or of the directory may remove a name
    /// in it.
    package var isSticky: Bool { mode & S_ISVTX != 0 }

    init(_ status: clinux_status) {
        device = status.device
        inode = status.inode
        mode = status.mode
        linkCount = status.links
        user = status.user
        group = status.group
        specialDevice = status.special_device
        size = status.size
        blockSize = status.block_size
        blocks = status.blocks
        accessed = Time(seconds: status.accessed, nanoseconds: status.accessed_ns)
        modified = Time(seconds: status.modified, nanoseconds: status.modified_ns)
        changed = Time(seconds: status.changed, nanoseconds: status.changed_ns)
        born = Time(seconds: status.born, nanoseconds: status.born_ns)
        attributes = Attributes(rawValue: status.attributes)
        mount = status.mount
    }
}

extension OwnedDescriptor {
    /// `statx(2)` of the open file itself.
    package borrowing func status() throws(Errno) -> FileStatus { try FileStatus(of: rawValue, "") }

    /// `statx(2)` of a name in this directory. If the name is a symbolic link, it returns the status of the link itself.
    package borrowing func status(of name: borrowing FileName) throws(Errno) -> FileStatus {
        try FileStatus(of: rawValue, name.bytes)
    }

    /// `statx(2)` of a name, without a request to the server of a remote file system. The result can therefore be outdated.
    package borrowing func cachedStatus(of name: borrowing FileName) throws(Errno) -> FileStatus {
        try FileStatus(of: rawValue, name.bytes, fromCache: true)
    }
}

extension FileStatus {
    fileprivate init(
        of directory: CInt, _ name: UnsafePointer<CChar>, fromCache: Bool = false
    ) throws(Errno) {
        var status = clinux_status()
        guard clinux_statx(directory, name, fromCache, &status) == 0 else { throw .last }
        self.init(status)
    }
}

package enum DeviceNumber {
    /// A device number that no driver uses: its major number is 4095, and drivers use major numbers up to 511.
    package static let none = clinux_device(4095, 0)
}

/// The result of `statfs(2)` for a file system.
package struct FilesystemStatus: Sendable {
    package var blockSize: UInt64
    package var fragmentSize: UInt64
    package var blocks: UInt64
    package var freeBlocks: UInt64
    package var availableBlocks: UInt64
    package var files: UInt64
    package var freeFiles: UInt64
    package var longestName: UInt64
    /// The kernel's number for the type of the file system, such as ext4.
    package var magic: Int64

    /// Whether the second lookup of a path never waits for a network or another process.
    ///
    /// True for ext4, XFS, Btrfs, F2FS and tmpfs.
    package var isLocal: Bool {
        [0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010, 0x0102_1994].contains(magic)
    }

    /// Whether only programs of this machine change files, so that inotify(7) reports each change.
    ///
    /// True for the file systems of ``isLocal``, and for overlayfs, bcachefs, ZFS, ramfs and SquashFS.
    package var isChangedLocally: Bool {
        isLocal || [0x794C_7630, 0xCA45_1A4E, 0x2FC1_2FC1, 0x8584_58F6, 0x7371_7368].contains(magic)
    }
}

extension OwnedDescriptor {
    /// `fstatfs(2)`: returns the status of the file system that contains the open file.
    package borrowing func filesystemStatus() throws(Errno) -> FilesystemStatus {
        var status = clinux_filesystem()
        guard clinux_statfs(rawValue, &status) == 0 else { throw .last }
        return FilesystemStatus(
            blockSize: status.block_size, fragmentSize: status.fragment_size, blocks: status.blocks,
            freeBlocks: status.free, availableBlocks: status.available, files: status.files,
            freeFiles: status.files_free, longestName: status.name_max, magic: status.magic)
    }
}
