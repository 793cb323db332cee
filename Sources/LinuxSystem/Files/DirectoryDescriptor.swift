// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// The `…at` system calls for a name in this directory.
extension OwnedDescriptor {
    /// `openat2(2)` with `O_PATH | O_NOFOLLOW`: names any kind of file, a symbolic link included.
    ///
    /// The kernel resolves the name beneath the directory only, and follows no link.
    package borrowing func path(of name: borrowing FileName) throws(Errno) -> OwnedDescriptor {
        let (directory, bytes) = (rawValue, name.bytes)
        let flags = UInt64(CLINUX_O_PATH | O_NOFOLLOW | O_CLOEXEC)
        // RESOLVE_NO_SYMLINKS refuses a final link even with O_NOFOLLOW, except with O_PATH, as here.
        return OwnedDescriptor(
            adopting: try retryingOnInterrupt {
                clinux_openat2(directory, bytes, flags, 0, CLINUX_RESOLVE_ONE_NAME)
            })
    }

    /// Returns whether the kernel can resolve a path below the directory without a disk or a network.
    ///
    /// The path must stay on the directory's file system, and only its last part may be a link. Returns false if the kernel
    /// cannot tell.
    package borrowing func isCached(_ path: UnsafePointer<CChar>) -> Bool {
        let flags = UInt64(CLINUX_O_PATH | O_NOFOLLOW | O_CLOEXEC)
        let found = clinux_openat2(
            rawValue, path, flags, 0, CLINUX_RESOLVE_ONE_NAME | CLINUX_RESOLVE_AT_HAND)
        return found >= 0 && close(found) == 0
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

    /// `mknodat(2)`.
    package borrowing func makeNode(
        _ name: borrowing FileName, mode: UInt32, device: UInt64
    ) throws(Errno) {
        guard mknodat(rawValue, name.bytes, mode, dev_t(device)) == 0 else { throw .last }
    }

    /// `symlinkat(2)`.
    package borrowing func makeSymbolicLink(
        _ name: borrowing FileName, to target: UnsafePointer<CChar>
    ) throws(Errno) {
        guard symlinkat(target, rawValue, name.bytes) == 0 else { throw .last }
    }

    /// `linkat(2)`: gives the file of another descriptor, which may be `O_PATH`, a name in this directory.
    package borrowing func link(
        _ file: borrowing OwnedDescriptor, as name: borrowing FileName
    ) throws(Errno) {
        guard clinux_link_descriptor(file.rawValue, rawValue, name.bytes) == 0 else { throw .last }
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

    /// `readlinkat(2)` of a symbolic link's own descriptor.
    package borrowing func linkTarget() throws(Errno) -> [UInt8] {
        // The kernel stores no longer target.
        var target = [UInt8](repeating: 0, count: Int(PATH_MAX))
        let descriptor = rawValue
        let count = target.withUnsafeMutableBytes { buffer in
            guard let start = buffer.baseAddress else { return -1 }
            return readlinkat(descriptor, "", start.assumingMemoryBound(to: CChar.self), buffer.count)
        }
        guard count >= 0 else { throw .last }
        return Array(target[..<count])
    }

    /// Returns the kernel's present path of the file, from the root of this process: `/proc/self/fd`.
    ///
    /// Returns `/` for a file without a known name; throws ENAMETOOLONG for a path that is longer than a page.
    package borrowing func currentPath() throws(Errno) -> [UInt8] {
        guard let path = readLink("/proc/self/fd/\(rawValue)") else { throw .last }
        return path
    }

    /// Opens the directory itself for reading.
    package borrowing func openForListing() throws(Errno) -> OwnedDescriptor {
        let directory = rawValue
        do throws(Errno) {
            return OwnedDescriptor(
                adopting: try retryingOnInterrupt {
                    openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                })
        } catch {
            // A caller with read but no search permission is refused here. Through `/proc` it is not, but that takes longer.
            guard error == .noAccess else { throw error }
            return try reopen(flags: O_RDONLY | O_DIRECTORY)
        }
    }
}

/// The flags of `renameat2(2)`.
package enum RenameFlags {
    package static var exchange: UInt32 { CLINUX_RENAME_EXCHANGE }
}
