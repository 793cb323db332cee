// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// A directory of the daemon below the source, which the daemon reaches by its descriptor alone.
///
/// The daemon resolves no path from the root, which the mount may cover, and none through a symbolic link. Otherwise a user
/// with write access to the source could redirect the daemon. Names here are the daemon's own, hence text; names of users'
/// files are `FileName`.
package struct StoreDirectory: ~Copyable, Sendable {
    private let descriptor: OwnedDescriptor

    private init(_ descriptor: consuming OwnedDescriptor) { self.descriptor = descriptor }

    /// `openat2(2)` with `O_DIRECTORY | O_NOFOLLOW`, beneath a directory.
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

    /// `openat2(2)` of a directory in another store directory.
    package static func subdirectory(
        _ name: String, of parent: borrowing StoreDirectory
    ) throws(Errno) -> StoreDirectory { try open(name, in: parent.descriptor) }

    /// Opens a directory in this one, and creates it with mode 0700 if it is missing.
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

    /// `openat2(2)` for reading; never blocks on a special file.
    package borrowing func open(_ name: String) throws(Errno) -> OwnedDescriptor {
        try open(name, flags: O_RDONLY | O_NOFOLLOW | O_NONBLOCK, mode: 0)
    }

    /// `openat2(2)` with `O_CREAT | O_EXCL`, mode 0600.
    package borrowing func create(_ name: String) throws(Errno) -> OwnedDescriptor {
        try open(name, flags: O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode: 0o600)
    }

    /// `openat2(2)` with `O_APPEND` for reading and appending; with `mayMake` also `O_CREAT`, mode 0600.
    package borrowing func openAppending(
        _ name: String, mayMake: Bool = true
    ) throws(Errno) -> OwnedDescriptor {
        let flags = O_RDWR | O_APPEND | O_NOFOLLOW
        return try open(name, flags: mayMake ? flags | O_CREAT : flags, mode: mayMake ? 0o600 : 0)
    }

    /// `openat2(2)` with `O_PATH`, which is enough for the status of an unreadable file.
    package borrowing func path(of name: String) throws(Errno) -> OwnedDescriptor {
        try open(name, flags: CLINUX_O_PATH | O_NOFOLLOW, mode: 0)
    }

    /// `linkat(2)`: gives the descriptor's file a name here; an `O_PATH` descriptor is enough.
    package borrowing func link(
        _ source: borrowing OwnedDescriptor, as name: String
    ) throws(Errno) {
        guard clinux_link_descriptor(source.rawValue, descriptor.rawValue, name) == 0 else { throw .last }
    }

    /// `renameat2(2)` with `RENAME_NOREPLACE`, within the directory.
    package borrowing func rename(_ name: String, to newName: String) throws(Errno) {
        let directory = descriptor.rawValue
        let result = clinux_renameat2(directory, name, directory, newName, CLINUX_RENAME_NOREPLACE)
        guard result != 0 else { return }
        guard errno == EINVAL else { throw .last }
        try move(name, to: newName)
    }

    /// `renameat(2)` within the directory: replaces the file `name` by the file `newName`.
    package borrowing func replace(_ name: String, by newName: String) throws(Errno) {
        guard renameat(descriptor.rawValue, newName, descriptor.rawValue, name) == 0 else { throw .last }
    }

    /// `renameat(2)` of a name that does not exist in the other directory.
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

    /// Renames like ``rename(_:to:)`` on a file system without the flag, such as NFS.
    ///
    /// It makes a link, which replaces no file either. Where there are no links it checks the new name first, because no
    /// other program works in the directory.
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

    /// Makes the directory's names durable by the caller's `step`.
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
    /// A name that is not UTF-8 is not the daemon's. It contains replacement characters here, so that it matches no name.
    package borrowing func names() throws(Errno) -> [String] {
        // A descriptor of its own, because the position of a listing belongs to the open file.
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
