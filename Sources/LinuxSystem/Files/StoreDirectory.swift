// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// A directory of the daemon in the source. The daemon reaches it by its descriptor alone.
///
/// The daemon resolves no path from the root, because the mount can cover that path. It follows no symbolic link, because a
/// user with write access to the source could redirect the daemon by a link. The daemon itself chose the names in this
/// directory, so they are text. Names of users' files are `FileName`.
package struct StoreDirectory: ~Copyable, Sendable {
    private let descriptor: OwnedDescriptor

    private init(_ descriptor: consuming OwnedDescriptor) { self.descriptor = descriptor }

    /// `openat2(2)` with `O_DIRECTORY | O_NOFOLLOW`: opens a directory that is in another directory.
    package static func open(
        _ name: String, in parent: borrowing OwnedDescriptor
    ) throws(Errno) -> StoreDirectory {
        let directory = parent.rawValue
        let flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW
        return StoreDirectory(
            OwnedDescriptor(
                adopting: try retryingOnInterrupt { clinux_open_beneath(directory, name, flags, 0) }))
    }

    /// `mkdirat(2)` with mode 0700; returns false if the name exists already.
    package static func make(_ name: String, in parent: borrowing OwnedDescriptor) throws(Errno) -> Bool {
        if mkdirat(parent.rawValue, name, 0o700) == 0 { return true }
        guard errno == EEXIST else { throw .last }
        return false
    }

    /// `openat2(2)`: opens the directory of this name in another store directory.
    package static func subdirectory(
        _ name: String, of parent: borrowing StoreDirectory
    ) throws(Errno) -> StoreDirectory { try open(name, in: parent.descriptor) }

    /// Opens the directory of this name in this directory. If it is missing, creates it with mode 0700.
    package borrowing func subdirectory(_ name: String) throws(Errno) -> StoreDirectory {
        do throws(Errno) {
            return try Self.open(name, in: descriptor)
        } catch .noEntry {
            _ = try Self.make(name, in: descriptor)
            return try Self.open(name, in: descriptor)
        }
    }

    /// `fstat(2)` of the directory itself.
    package borrowing func status() throws(Errno) -> FileStatus { try descriptor.status() }

    /// `openat2(2)`: opens a file of this name for reading. Does not wait, even if the file is a FIFO or a device.
    package borrowing func open(_ name: String) throws(Errno) -> OwnedDescriptor {
        try open(name, flags: O_RDONLY | O_NOFOLLOW | O_NONBLOCK, mode: 0)
    }

    /// `openat2(2)` with `O_CREAT | O_EXCL`: creates a new file with mode 0600.
    package borrowing func create(_ name: String) throws(Errno) -> OwnedDescriptor {
        try open(name, flags: O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode: 0o600)
    }

    /// `openat2(2)` with `O_APPEND`: opens a file for reading and appending. If the file is missing and `mayMake` is true,
    /// creates it with mode 0600.
    package borrowing func openAppending(
        _ name: String, mayMake: Bool = true
    ) throws(Errno) -> OwnedDescriptor {
        let flags = O_RDWR | O_APPEND | O_NOFOLLOW
        return try open(name, flags: mayMake ? flags | O_CREAT : flags, mode: mayMake ? 0o600 : 0)
    }

    /// `openat2(2)` with `O_PATH`: enough to get the status of a file that the daemon may not read.
    package borrowing func path(of name: String) throws(Errno) -> OwnedDescriptor {
        try open(name, flags: CLINUX_O_PATH | O_NOFOLLOW, mode: 0)
    }

    /// `linkat(2)`: gives the file of a descriptor a name in this directory. An `O_PATH` descriptor is enough.
    package borrowing func link(
        _ source: borrowing OwnedDescriptor, as name: String
    ) throws(Errno) {
        guard clinux_link_descriptor(source.rawValue, descriptor.rawValue, name) == 0 else { throw .last }
    }

    /// `renameat2(2)` with `RENAME_NOREPLACE`: renames a file within the directory, and fails if the new name exists.
    package borrowing func rename(_ name: String, to newName: String) throws(Errno) {
        let directory = descriptor.rawValue
        let result = clinux_renameat2(directory, name, directory, newName, CLINUX_RENAME_NOREPLACE)
        guard result != 0 else { return }
        guard errno == EINVAL else { throw .last }
        try move(name, to: newName)
    }

    /// `renameat(2)`: renames the file `newName` to `name`. The former file `name` is removed by this.
    package borrowing func replace(_ name: String, by newName: String) throws(Errno) {
        guard renameat(descriptor.rawValue, newName, descriptor.rawValue, name) == 0 else { throw .last }
    }

    /// `renameat(2)`: moves a file to another directory. The name must not exist in that directory.
    package borrowing func move(
        _ name: String, to other: borrowing StoreDirectory
    ) throws(Errno) {
        guard faccessat(other.descriptor.rawValue, name, F_OK, AT_SYMLINK_NOFOLLOW) != 0 else {
            throw .exists
        }
        guard errno == ENOENT, renameat(descriptor.rawValue, name, other.descriptor.rawValue, name) == 0
        else {
            throw .last
        }
    }

    /// Renames like ``rename(_:to:)`` on a file system that does not know `RENAME_NOREPLACE`, such as NFS.
    ///
    /// The method makes a second link, which cannot replace a file, and then removes the first name. On a file system without
    /// links, it checks that the new name is missing, and then renames. No other program works in the directory, so the name
    /// stays missing in between.
    private borrowing func move(_ name: String, to newName: String) throws(Errno) {
        let directory = descriptor.rawValue
        if linkat(directory, name, directory, newName, 0) == 0 { return try remove(name) }
        guard [EPERM, EOPNOTSUPP, ENOSYS].contains(errno) else { throw .last }
        guard faccessat(directory, newName, F_OK, AT_SYMLINK_NOFOLLOW) != 0 else { throw .exists }
        guard errno == ENOENT, renameat(directory, name, directory, newName) == 0 else { throw .last }
    }

    /// `unlinkat(2)` of a file, or of an empty directory.
    package borrowing func remove(_ name: String, isDirectory: Bool = false) throws(Errno) {
        guard unlinkat(descriptor.rawValue, name, isDirectory ? AT_REMOVEDIR : 0) == 0 else { throw .last }
    }

    /// `fsync(2)` of the directory, so that its names survive a power failure.
    package borrowing func synchronize() throws(Errno) { try descriptor.synchronize() }

    /// Makes the directory's names durable by calling `step`, which synchronizes the descriptor that it receives.
    package borrowing func synchronize(
        by step: (borrowing OwnedDescriptor) throws(Errno) -> Void
    ) throws(Errno) { try step(descriptor) }

    /// `fstatfs(2)` of the directory's file system.
    package borrowing func filesystemStatus() throws(Errno) -> FilesystemStatus {
        try descriptor.filesystemStatus()
    }

    /// `fchmod(2)` of the directory itself.
    package borrowing func changeMode(to mode: UInt32) throws(Errno) { try descriptor.changeMode(to: mode) }

    /// Returns all names in the directory except `.` and `..`.
    ///
    /// If another program made a name that is not UTF-8, the text has replacement characters. Such a text equals no name of the
    /// daemon.
    package borrowing func names() throws(Errno) -> [String] {
        // The directory is opened once more, because all descriptors of one open directory share its position in the listing.
        var stream = try DirectoryStream(reading: open(".", flags: O_RDONLY | O_DIRECTORY, mode: 0))
        var names: [String] = []
        try stream.forEach(from: 0) { name, _, _, _ in
            if !name.isSelfOrParent { names.append(String(cString: name.bytes)) }
            return true
        }
        return names.sorted()
    }

    private borrowing func open(_ name: String, flags: CInt, mode: UInt32) throws(Errno) -> OwnedDescriptor {
        let directory = descriptor.rawValue
        return OwnedDescriptor(
            adopting: try retryingOnInterrupt { clinux_open_beneath(directory, name, flags, mode) })
    }
}
