// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// System calls for the contents of whole files: share blocks, copy, compare, append, and write to the disk.
extension OwnedDescriptor {
    /// Opens this descriptor's file once more for reading, at position 0. An `O_PATH` descriptor is enough.
    package borrowing func reopenForReading() throws(Errno) -> OwnedDescriptor {
        let descriptor = rawValue
        return OwnedDescriptor(
            adopting: try retryingOnInterrupt { clinux_reopen_for_reading(descriptor) })
    }

    /// Opens this descriptor's file once more with `O_APPEND`, for reading and appending.
    package borrowing func reopenForAppending() throws(Errno) -> OwnedDescriptor {
        try reopen(flags: O_RDWR | O_APPEND)
    }

    /// `ioctl(2)` with `FICLONE`: makes the file `target` share this file's blocks. Returns false if the file system cannot
    /// share blocks.
    package borrowing func reflink(to target: borrowing OwnedDescriptor) throws(Errno) -> Bool {
        if clinux_reflink(rawValue, target.rawValue) == 0 { return true }
        let cannot = [EOPNOTSUPP, ENOTTY, EINVAL, EXDEV, EPERM, ETXTBSY, ENOSYS, EACCES, EISDIR]
        guard cannot.contains(errno) else { throw .last }
        return false
    }

    /// `lseek(2)`: moves the position of the open file to the beginning.
    package borrowing func rewind() throws(Errno) {
        guard lseek(rawValue, 0, SEEK_SET) == 0 else { throw .last }
    }

    /// Copies up to `limit` bytes from this file's position to the other file, and returns the number of copied bytes.
    ///
    /// The method uses `copy_file_range(2)`, which can share blocks or copy on a server. If that call is refused or ends early,
    /// `sendfile(2)` copies the rest.
    package borrowing func copyContents(
        to target: borrowing OwnedDescriptor, limit: Int
    ) throws(Errno) -> Int {
        let (from, to) = (rawValue, target.rawValue)
        let cannot = [EOPNOTSUPP, EINVAL, EXDEV, ENOSYS, EPERM]
        var copied = 0
        do throws(Errno) {
            copied = try Self.repeating(upTo: limit) { clinux_copy_file_range(from, to, $0) }
        } catch {
            // The refused call has copied nothing and left the position unchanged. So the position still shows how many bytes
            // were copied.
            guard cannot.contains(error.rawValue) else { throw error }
            copied = Int(lseek(from, 0, SEEK_CUR))
        }
        return copied + (try Self.repeating(upTo: limit - copied) { sendfile(to, from, nil, $0) })
    }

    private static func repeating(
        upTo limit: Int, _ step: (Int) -> Int
    ) throws(Errno) -> Int {
        var done = 0
        while done < limit {
            let count = try retryingOnInterrupt { step(min(limit - done, 1 << 26)) }
            guard count > 0 else { break }
            done += count
        }
        return done
    }

    /// Returns whether this file and another file have the same bytes in a range. Each of the two files must contain the whole
    /// range.
    package borrowing func hasSameContents(
        as other: borrowing OwnedDescriptor, from offset: Int = 0, count: Int
    ) throws(Errno) -> Bool {
        let result = clinux_same_contents(rawValue, other.rawValue, Int64(offset), Int64(count))
        guard result >= 0 else { throw .last }
        return result == 1
    }

    /// `fsync(2)`: writes the file's data and attributes to the disk.
    package borrowing func synchronize() throws(Errno) {
        let descriptor = rawValue
        _ = try retryingOnInterrupt { fsync(descriptor) }
    }

    /// Writes all bytes with `write(2)`.
    package borrowing func writeAll(_ bytes: [UInt8]) throws(Errno) {
        let descriptor = rawValue
        var start = 0
        while start < bytes.count {
            start += try retryingOnInterrupt {
                bytes[start...].withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            }
        }
    }

    /// `pread(2)`: reads bytes at an offset; returns fewer bytes than `count` only at the end of the file.
    package borrowing func read(at offset: Int, count: Int) throws(Errno) -> [UInt8] {
        let descriptor = rawValue
        var bytes = [UInt8](repeating: 0, count: count)
        var filled = 0
        while filled < count {
            let got = try retryingOnInterrupt {
                bytes.withUnsafeMutableBytes {
                    pread(descriptor, $0.baseAddress! + filled, count - filled, off_t(offset + filled))
                }
            }
            guard got > 0 else { break }
            filled += got
        }
        return Array(bytes.prefix(filled))
    }

    /// `ftruncate(2)`: makes the file shorter.
    package borrowing func shorten(to size: Int) throws(Errno) {
        let descriptor = rawValue
        _ = try retryingOnInterrupt { ftruncate(descriptor, off_t(size)) }
    }

    /// `flock(2)` with `LOCK_EX | LOCK_NB`: takes the lock without waiting. Returns false if another open file has the lock.
    package borrowing func tryLock() throws(Errno) -> Bool {
        if clinux_lock_at_once(rawValue) == 0 { return true }
        guard errno == EWOULDBLOCK else { throw .last }
        return false
    }

    /// Releases the lock of the open file: `flock(2)` with `LOCK_UN`.
    ///
    /// Closing the descriptor is not enough: a child process has a copy of the descriptor until it runs its program, and the
    /// lock stays as long as a copy is open.
    package borrowing func unlock() {
        // The call fails only for a descriptor that refers to no open file.
        _ = clinux_unlock(rawValue)
    }

    /// `getxattr(2)`: returns the POSIX access ACL in the kernel's form. Returns nil if the file has no ACL, but only the
    /// permissions of its mode.
    package borrowing func accessControlList() throws(Errno) -> [UInt8]? {
        let name = "system.posix_acl_access"
        var value = [UInt8](repeating: 0, count: 1 << 16)
        let size = value.withUnsafeMutableBytes {
            clinux_get_attribute(rawValue, name, $0.baseAddress, $0.count)
        }
        if size >= 0 { return Array(value.prefix(size)) }
        guard errno == ENODATA || errno == EOPNOTSUPP else { throw .last }
        return nil
    }

    /// Gives this file the ACL that ``accessControlList()`` returned for another file.
    package borrowing func setAccessControlList(_ list: [UInt8]) throws(Errno) {
        let result: Result<Void, Errno> = list.withUnsafeBytes { bytes in
            do throws(Errno) {
                return .success(try setExtendedAttribute("system.posix_acl_access", to: bytes, flags: 0))
            } catch {
                return .failure(error)
            }
        }
        try result.get()
    }
}
