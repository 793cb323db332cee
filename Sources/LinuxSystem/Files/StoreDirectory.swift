// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// A directory of the daemon's own, below the source, reached by its descriptor alone.
///
/// No path is ever resolved from the root (the mount may cover it), and none through a symbolic link:
/// whoever can write the source must not be able to send the daemon elsewhere. Names here are the
/// daemon's own and therefore text; names of users' files are `FileName`.
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

    /// `mkdirat(2)` with mode 0700; false if something of the name is there already.
    package static func make(_ name: String, in parent: borrowing OwnedDescriptor) throws(Errno) -> Bool {
        if mkdirat(parent.rawValue, name, 0o700) == 0 { return true }
        guard errno == EEXIST else { throw .last }
        return false
    }

    /// `openat2(2)` of a directory in another one.
    package static func subdirectory(
        _ name: String, of parent: borrowing StoreDirectory
    ) throws(Errno) -> StoreDirectory { try open(name, in: parent.descriptor) }

    /// A directory in this one, made with mode 0700 if it is missing.
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

    /// `openat2(2)` for reading; never blocks on what is no file.
    package borrowing func open(_ name: String) throws(Errno) -> OwnedDescriptor {
        try open(name, flags: O_RDONLY | O_NOFOLLOW | O_NONBLOCK, mode: 0)
    }

    /// `openat2(2)` with `O_CREAT | O_EXCL`, mode 0600.
    package borrowing func create(_ name: String) throws(Errno) -> OwnedDescriptor {
        try open(name, flags: O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode: 0o600)
    }

    /// `openat2(2)` with `O_APPEND`, to read and to append; and with `O_CREAT`, mode 0600, if it `mayMake` the file.
    package borrowing func openAppending(
        _ name: String, mayMake: Bool = true
    ) throws(Errno) -> OwnedDescriptor {
        let flags = O_RDWR | O_APPEND | O_NOFOLLOW
        return try open(name, flags: mayMake ? flags | O_CREAT : flags, mode: mayMake ? 0o600 : 0)
    }

    /// `openat2(2)` with `O_PATH`: enough to ask about a file that may not be read.
    package borrowing func path(of name: String) throws(Errno) -> OwnedDescriptor {
        try open(name, flags: CLINUX_O_PATH | O_NOFOLLOW, mode: 0)
    }

    /// `linkat(2)`: gives the file a descriptor stands for, `O_PATH` will do, a name here.
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

    /// `renameat(2)`, within the directory: puts one file in the place of another.
    package borrowing func replace(_ name: String, by newName: String) throws(Errno) {
        guard renameat(descriptor.rawValue, newName, descriptor.rawValue, name) == 0 else { throw .last }
    }

    /// `renameat(2)` of a name that the other directory does not have.
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

    /// The same as ``rename(_:to:)`` on a file system that does not know the flag, as NFS: by a link, which replaces nothing either. Where there are
    /// none, by a look; nobody else works in the directory.
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

    /// `fsync(2)` of the directory: its names survive a power cut.
    package borrowing func synchronize() throws(Errno) { try descriptor.synchronize() }

    /// The same by a step of the caller's.
    package borrowing func synchronize(
        by step: (borrowing OwnedDescriptor) throws(Errno) -> Void
    ) throws(Errno) { try step(descriptor) }

    /// `fstatfs(2)` of the file system that it lies on.
    package borrowing func filesystemStatus() throws(Errno) -> FilesystemStatus {
        try descriptor.filesystemStatus()
    }

    /// `fchmod(2)` of the directory itself.
    package borrowing func changeMode(to mode: UInt32) throws(Errno) { try descriptor.changeMode(to: mode) }

    /// Every name in the directory but `.` and `..`; one that is not UTF-8 is not the daemon's, and is
    /// shown with the replacement character so that it matches nothing.
    package borrowing func names() throws(Errno) -> [String] {
        // A descriptor of its own: the listing's position belongs to the open file.
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
