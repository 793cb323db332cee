// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// System calls with names that end in `at`. Each acts on a name in the directory of this descriptor.
extension OwnedDescriptor {
    /// Returns an `O_PATH` descriptor for the file of a name, even for a symbolic link itself: `openat2(2)`.
    ///
    /// The kernel looks up the name in this directory only, and follows no symbolic link.
    package borrowing func path(of name: borrowing FileName) throws(Errno) -> OwnedDescriptor {
        let (directory, bytes) = (rawValue, name.bytes)
        let flags = UInt64(CLINUX_O_PATH | O_NOFOLLOW | O_CLOEXEC)
        // RESOLVE_NO_SYMLINKS refuses a symbolic link as the last name, even with O_NOFOLLOW. The kernel accepts such a link
        // only with O_PATH.
        return OwnedDescriptor(
            adopting: try retryingOnInterrupt {
                clinux_openat2(directory, bytes, flags, 0, CLINUX_RESOLVE_ONE_NAME)
            })
    }

    /// Returns whether the kernel can resolve a path in the directory without waiting for a disk or a network.
    ///
    /// The path must stay on the directory's file system, and only the last part of the path may be a symbolic link. If the
    /// kernel does not know the answer, returns false.
    package borrowing func isCached(_ path: UnsafePointer<CChar>) -> Bool {
        let flags = UInt64(CLINUX_O_PATH | O_NOFOLLOW | O_CLOEXEC)
        let found = clinux_openat2(
            rawValue, path, flags, 0, CLINUX_RESOLVE_ONE_NAME | CLINUX_RESOLVE_AT_HAND)
        return found >= 0 && close(found) == 0
    }

    /// `openat(2)` with `O_CREAT`: opens the file of this name, and creates it if it is missing.
    package borrowing func create(
        _ name: borrowing FileName, flags: CInt, mode: UInt32
    ) throws(Errno) -> OwnedDescriptor {
        let (directory, bytes) = (rawValue, name.bytes)
        let flags = flags | O_CREAT | O_NOFOLLOW | O_CLOEXEC
        return OwnedDescriptor(adopting: try retryingOnInterrupt { openat(directory, bytes, flags, mode) })
    }

    /// `mkdirat(2)`: makes a directory of this name.
    package borrowing func makeDirectory(_ name: borrowing FileName, mode: UInt32) throws(Errno) {
        guard mkdirat(rawValue, name.bytes, mode) == 0 else { throw .last }
    }

    /// `mknodat(2)`: makes a pipe, socket, device or regular file of this name.
    package borrowing func makeNode(
        _ name: borrowing FileName, mode: UInt32, device: UInt64
    ) throws(Errno) {
        guard mknodat(rawValue, name.bytes, mode, dev_t(device)) == 0 else { throw .last }
    }

    /// `symlinkat(2)`: makes a symbolic link of this name.
    package borrowing func makeSymbolicLink(
        _ name: borrowing FileName, to target: UnsafePointer<CChar>
    ) throws(Errno) {
        guard symlinkat(target, rawValue, name.bytes) == 0 else { throw .last }
    }

    /// `linkat(2)`: gives the file of another descriptor a name in this directory. For that file, an `O_PATH` descriptor is
    /// enough.
    package borrowing func link(
        _ file: borrowing OwnedDescriptor, as name: borrowing FileName
    ) throws(Errno) {
        guard clinux_link_descriptor(file.rawValue, rawValue, name.bytes) == 0 else { throw .last }
    }

    /// `unlinkat(2)`: removes a name of a file, or an empty directory, from this directory.
    package borrowing func remove(_ name: borrowing FileName, isDirectory: Bool) throws(Errno) {
        guard unlinkat(rawValue, name.bytes, isDirectory ? AT_REMOVEDIR : 0) == 0 else { throw .last }
    }

    /// `renameat2(2)`: moves a name from this directory to another directory, or to a new name in this directory.
    package borrowing func rename(
        _ name: borrowing FileName, to newName: borrowing FileName,
        in newDirectory: borrowing OwnedDescriptor, flags: UInt32
    ) throws(Errno) {
        let result = clinux_renameat2(rawValue, name.bytes, newDirectory.rawValue, newName.bytes, flags)
        guard result == 0 else { throw .last }
    }

    /// `readlinkat(2)`: returns the target of the symbolic link that this descriptor refers to.
    package borrowing func linkTarget() throws(Errno) -> [UInt8] {
        // The target always fits into this buffer, because the kernel stores no target that is longer than PATH_MAX.
        var target = [UInt8](repeating: 0, count: Int(PATH_MAX))
        let descriptor = rawValue
        let count = target.withUnsafeMutableBytes { buffer in
            guard let start = buffer.baseAddress else { return -1 }
            return readlinkat(descriptor, "", start.assumingMemoryBound(to: CChar.self), buffer.count)
        }
        guard count >= 0 else { throw .last }
        return Array(target[..<count])
    }

    /// Returns the path that the file has now, from the root of this process, as the kernel knows it: `/proc/self/fd`.
    ///
    /// Returns `/` for a file without a name that the kernel knows. Throws ENAMETOOLONG for a path that is longer than a memory
    /// page.
    package borrowing func currentPath() throws(Errno) -> [UInt8] {
        guard let path = readLink("/proc/self/fd/\(rawValue)") else { throw .last }
        return path
    }

    /// Opens this directory for reading, so that its names can be listed.
    package borrowing func openForListing() throws(Errno) -> OwnedDescriptor {
        let directory = rawValue
        do throws(Errno) {
            return OwnedDescriptor(
                adopting: try retryingOnInterrupt {
                    openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                })
        } catch {
            // Opening `.` fails if the caller may read the directory but not search it. Opening through `/proc` succeeds in
            // this case, but takes longer.
            guard error == .noAccess else { throw error }
            return try reopen(flags: O_RDONLY | O_DIRECTORY)
        }
    }
}

/// The flags of `renameat2(2)`.
package enum RenameFlags {
    package static var exchange: UInt32 { CLINUX_RENAME_EXCHANGE }
}
