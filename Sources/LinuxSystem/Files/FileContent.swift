// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// Contents of whole files: shared, copied, appended, made durable.
extension OwnedDescriptor {
    /// `open(2)` for reading of what this descriptor, `O_PATH` will do, stands for, at position 0.
    package borrowing func reopenForReading() throws(Errno) -> OwnedDescriptor {
        let descriptor = rawValue
        return OwnedDescriptor(
            adopting: try retryingOnInterrupt { clinux_reopen_for_reading(descriptor) })
    }

    /// `open(2)` with `O_APPEND`, to read and to append, of what this descriptor stands for.
    package borrowing func reopenForAppending() throws(Errno) -> OwnedDescriptor {
        try reopen(flags: O_RDWR | O_APPEND)
    }

    /// `ioctl(2)` with `FICLONE`: false if the file system cannot share blocks between these two.
    package borrowing func reflink(to target: borrowing OwnedDescriptor) throws(Errno) -> Bool {
        if clinux_reflink(rawValue, target.rawValue) == 0 { return true }
        let cannot = [EOPNOTSUPP, ENOTTY, EINVAL, EXDEV, EPERM, ETXTBSY, ENOSYS, EACCES, EISDIR]
        guard cannot.contains(errno) else { throw .last }
        return false
    }

    /// `lseek(2)` to the beginning.
    package borrowing func rewind() throws(Errno) {
        guard lseek(rawValue, 0, SEEK_SET) == 0 else { throw .last }
    }

    /// Copies up to `limit` bytes from this file's position on, and says how many there were.
    ///
    /// `copy_file_range(2)`, which some file systems serve without moving bytes; `sendfile(2)` where it
    /// is refused or ends early.
    package borrowing func copyContents(
        to target: borrowing OwnedDescriptor, limit: Int
    ) throws(Errno) -> Int {
        let (from, to) = (rawValue, target.rawValue)
        let cannot = [EOPNOTSUPP, EINVAL, EXDEV, ENOSYS, EPERM]
        var copied = 0
        do throws(Errno) {
            copied = try Self.repeating(upTo: limit) { clinux_copy_file_range(from, to, $0) }
        } catch {
            // Refused at the first call or never: the position still tells what is left to copy.
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

    /// Whether this file and another one hold the same bytes in a range that both have.
    package borrowing func hasSameContents(
        as other: borrowing OwnedDescriptor, from offset: Int = 0, count: Int
    ) throws(Errno) -> Bool {
        let result = clinux_same_contents(rawValue, other.rawValue, Int64(offset), Int64(count))
        guard result >= 0 else { throw .last }
        return result == 1
    }

    /// `fsync(2)`.
    package borrowing func synchronize() throws(Errno) {
        let descriptor = rawValue
        _ = try retryingOnInterrupt { fsync(descriptor) }
    }

    /// `write(2)` of everything.
    package borrowing func writeAll(_ bytes: [UInt8]) throws(Errno) {
        let descriptor = rawValue
        var start = 0
        while start < bytes.count {
            start += try retryingOnInterrupt {
                bytes[start...].withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            }
        }
    }

    /// `pread(2)`: fewer bytes than asked for only at the end of the file.
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

    /// `ftruncate(2)`.
    package borrowing func shorten(to size: Int) throws(Errno) {
        let descriptor = rawValue
        _ = try retryingOnInterrupt { ftruncate(descriptor, off_t(size)) }
    }

    /// `flock(2)` with `LOCK_EX | LOCK_NB`: false if another open file holds the lock.
    package borrowing func tryLock() throws(Errno) -> Bool {
        if clinux_lock_at_once(rawValue) == 0 { return true }
        guard errno == EWOULDBLOCK else { throw .last }
        return false
    }

    /// `flock(2)` with `LOCK_UN`.
    ///
    /// To close the descriptor may not be enough: the lock is the open file's, which a process that is just being
    /// started shares until it runs its program.
    package borrowing func unlock() {
        // Fails for what is no open file alone.
        _ = clinux_unlock(rawValue)
    }

    /// `getxattr(2)` of the POSIX access ACL in the kernel's form; nil if the mode says everything.
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

    /// Gives a file what ``accessControlList()`` has told of another one.
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
