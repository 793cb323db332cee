// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// System calls that read and write an open file.
extension OwnedDescriptor {
    /// `pread(2)`: reads until the buffer is full or the file ends.
    package borrowing func read(
        into buffer: UnsafeMutableRawBufferPointer, at offset: Int64
    ) throws(Errno) -> Int {
        let descriptor = rawValue
        var done = 0
        while done < buffer.count {
            let (start, rest) = (buffer.baseAddress.map { $0 + done }, buffer.count - done)
            let from = offset + Int64(done)
            let count = try retryingOnInterrupt { pread(descriptor, start, rest, off_t(from)) }
            if count == 0 { break }
            done += count
        }
        return done
    }

    /// Reads from the page cache without waiting for the disk. Returns nil if the bytes in the cache do not fill the buffer.
    package borrowing func readFromCache(
        into buffer: UnsafeMutableRawBufferPointer, at offset: Int64
    ) -> Int? {
        let count = Int(clinux_read_now(rawValue, buffer.baseAddress, buffer.count, offset))
        return count == buffer.count ? count : nil
    }

    /// Writes all bytes with `pwrite(2)`. Returns a smaller number only if an error occurred after some bytes.
    ///
    /// If `offset` is nil, the method appends: the bytes go to the end that the file has at the time of the write.
    package borrowing func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64?) throws(Errno) -> Int {
        let descriptor = rawValue
        var done = 0
        while done < bytes.count {
            let (start, rest) = (bytes.baseAddress.map { $0 + done }, bytes.count - done)
            let to = offset.map { $0 + Int64(done) }
            do throws(Errno) {
                done += try retryingOnInterrupt {
                    if let to { return pwrite(descriptor, start, rest, off_t(to)) }
                    return Int(clinux_append(descriptor, start, rest))
                }
            } catch {
                guard done > 0 else { throw error }
                return done
            }
        }
        return done
    }

    /// `ftruncate(2)`: sets the size of the open file.
    package borrowing func truncateOpenFile(to size: Int64) throws(Errno) {
        let descriptor = rawValue
        _ = try retryingOnInterrupt { ftruncate(descriptor, off_t(size)) }
    }

    /// `fsync(2)`: writes the file to the disk. With `dataOnly`, `fdatasync(2)` leaves out attributes such as the times.
    package borrowing func synchronize(dataOnly: Bool) throws(Errno) {
        let descriptor = rawValue
        _ = try retryingOnInterrupt { dataOnly ? fdatasync(descriptor) : fsync(descriptor) }
    }

    /// Closes a duplicate of the descriptor. On a remote file system, this close(2) returns the errors of earlier writes that
    /// were delayed.
    package borrowing func flush() throws(Errno) {
        let another = try OwnedDescriptor.duplicating(rawValue).release()
        guard Glibc.close(another) != 0 else { return }
        let error = Errno.last
        // The kernel closes the descriptor even if it returns EINTR, so this error is ignored.
        if error.rawValue != EINTR { throw error }
    }

    /// `fallocate(2)`: reserves or frees blocks of the open file.
    package borrowing func allocate(mode: CInt, offset: Int64, length: Int64) throws(Errno) {
        let descriptor = rawValue
        _ = try retryingOnInterrupt { clinux_fallocate(descriptor, mode, offset, length) }
    }

    /// `copy_file_range(2)`, called once. It can copy fewer bytes than the caller asked for.
    package borrowing func copyRange(
        at offset: Int64, to other: borrowing OwnedDescriptor, at otherOffset: Int64, length: Int
    ) throws(Errno) -> Int {
        let (from, to) = (rawValue, other.rawValue)
        return Int(
            try retryingOnInterrupt {
                clinux_copy_range_at(from, offset, to, otherOffset, UInt64(length))
            })
    }

    /// `lseek(2)`: moves the position of the open file, and returns it.
    package borrowing func seek(to offset: Int64, whence: CInt) throws(Errno) -> Int64 {
        let descriptor = rawValue
        return Int64(try retryingOnInterrupt { lseek(descriptor, off_t(offset), whence) })
    }

    /// Returns whether no process has the file open for writing or mapped writable. If the kernel does not know the answer,
    /// returns false.
    ///
    /// The method takes a lease for a moment, which the kernel grants only if no process can write. During this moment, another
    /// process that opens the file for writing waits, or fails with `O_NONBLOCK`. Conditions for a correct answer:
    ///
    /// - The descriptor is open for reading only.
    /// - The file belongs to the process's user, unless the process has `CAP_LEASE`.
    /// - `SIGIO` does not end the process.
    package borrowing func hasNoWriter() -> Bool { clinux_has_no_writer(rawValue) }

    /// Returns whether a process has the file open for writing or mapped writable. If the kernel does not know the answer,
    /// returns false.
    package borrowing func hasWriter() -> Bool { clinux_has_writer(rawValue) }

    /// `fcntl(2)` with `F_SETFL`: sets the status flags of the open file, such as `O_APPEND`.
    package borrowing func setStatusFlags(_ flags: CInt) throws(Errno) {
        let descriptor = rawValue
        _ = try retryingOnInterrupt { fcntl(descriptor, F_SETFL, flags) }
    }
}

/// Flags of open(2) that are missing in Swift's Glibc module.
package enum OpenFlag {
    /// `O_NOATIME`: reads by this descriptor do not change the file's access time.
    package static var noAccessTime: Int32 { CLINUX_O_NOATIME }
}
