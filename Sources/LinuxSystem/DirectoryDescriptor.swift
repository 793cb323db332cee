// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// The `…at` system calls: what can be done to a name in the directory a descriptor stands for.
extension OwnedDescriptor {
    /// `openat(2)` with `O_PATH | O_NOFOLLOW`: names whatever is there, a symbolic link included.
    package borrowing func path(of name: borrowing FileName) throws(Errno) -> OwnedDescriptor {
        let (directory, bytes) = (rawValue, name.bytes)
        let flags = CLINUX_O_PATH | O_NOFOLLOW | O_CLOEXEC
        return OwnedDescriptor(adopting: try retryingOnInterrupt { openat(directory, bytes, flags) })
    }

    /// `fstatat(2)` with `AT_SYMLINK_NOFOLLOW`.
    package borrowing func status(of name: borrowing FileName) throws(Errno) -> FileStatus {
        var status = stat()
        guard fstatat(rawValue, name.bytes, &status, AT_SYMLINK_NOFOLLOW) == 0 else { throw .last }
        return FileStatus(status)
    }

    /// `openat(2)` with `O_CREAT`.
    package borrowing func create(
        _ name: borrowing FileName, flags: CInt, mode: UInt32
    ) throws(Errno) -> OwnedDescriptor {
        let (directory, bytes) = (rawValue, name.bytes)
        let flags = flags | O_CREAT | O_NOFOLLOW | O_CLOEXEC
        return OwnedDescriptor(adopting: try retryingOnInterrupt { openat(directory, bytes, flags, mode) })
    }

    /// `mkdirat(2)`.
    package borrowing func makeDirectory(_ name: borrowing FileName, mode: UInt32) throws(Errno) {
        guard mkdirat(rawValue, name.bytes, mode) == 0 else { throw .last }
    }

    /// `unlinkat(2)`.
    package borrowing func remove(_ name: borrowing FileName, isDirectory: Bool) throws(Errno) {
        guard unlinkat(rawValue, name.bytes, isDirectory ? AT_REMOVEDIR : 0) == 0 else { throw .last }
    }

    /// `renameat2(2)`.
    package borrowing func rename(
        _ name: borrowing FileName, to newName: borrowing FileName,
        in newDirectory: borrowing OwnedDescriptor, flags: UInt32
    ) throws(Errno) {
        let result = clinux_renameat2(rawValue, name.bytes, newDirectory.rawValue, newName.bytes, flags)
        guard result == 0 else { throw .last }
    }

    /// `fchownat(2)` with `AT_SYMLINK_NOFOLLOW`.
    package borrowing func changeOwner(
        of name: borrowing FileName, user: UInt32, group: UInt32
    ) throws(Errno) {
        guard fchownat(rawValue, name.bytes, user, group, AT_SYMLINK_NOFOLLOW) == 0 else { throw .last }
    }
}

/// What an `O_PATH` descriptor cannot do itself, done through its name in `/proc`.
extension OwnedDescriptor {
    /// `truncate(2)`.
    package borrowing func truncate() throws(Errno) {
        guard Glibc.truncate("/proc/self/fd/\(rawValue)", 0) == 0 else { throw .last }
    }

    /// `openat(2)` of the directory itself, this time to be read.
    package borrowing func openForListing() throws(Errno) -> OwnedDescriptor {
        let directory = rawValue
        return OwnedDescriptor(
            adopting: try retryingOnInterrupt { openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) })
    }
}
