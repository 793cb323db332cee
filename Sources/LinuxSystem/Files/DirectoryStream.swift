// SPDX-License-Identifier: Apache-2.0
import Glibc

/// An open `readdir(3)` stream.
package struct DirectoryStream: ~Copyable, @unchecked Sendable {
    // @unchecked: any thread may use a DIR, one at a time; an owner that shares a stream uses a lock.
    private let stream: OpaquePointer
    /// Whether the last entry did not fit into its page, and must come again.
    private var offersAgain = false
    private var last: UnsafeMutablePointer<dirent>?
    private var position = 0

    package init(reading directory: consuming OwnedDescriptor) throws(Errno) {
        guard let stream = fdopendir(directory.rawValue) else { throw .last }
        self.stream = stream
        _ = directory.release()
    }

    deinit { closedir(stream) }

    /// Passes the entries from `offset` on to `body`, until it refuses an entry or there are no more.
    ///
    /// A refused entry is the first of the next call. The second argument of `body` is the inode number, the third is
    /// `d_type`, and the last is the offset of the next entry. After an error there may be more entries.
    package mutating func forEach(
        from offset: Int, _ body: (borrowing FileName, UInt64, UInt8, Int) -> Bool
    ) throws(Errno) {
        if offset != position {
            seekdir(stream, offset)
            (position, offersAgain) = (offset, false)
        }
        while let entry = try offersAgain ? last : next() {
            // Not `&entry.pointee.d_name`: a record is shorter than C's declaration of 256 bytes.
            let name = UnsafeRawPointer(entry) + MemoryLayout<dirent>.offset(of: \.d_name)!
            let next = entry.pointee.d_off
            (last, offersAgain) = (entry, true)
            let isAccepted = body(
                FileName(borrowing: name.assumingMemoryBound(to: CChar.self)),
                UInt64(entry.pointee.d_ino), entry.pointee.d_type, next)
            guard isAccepted else { return }
            (position, offersAgain) = (next, false)
        }
    }

    /// Returns nil at the end; only `errno` distinguishes the end from a read error.
    private borrowing func next() throws(Errno) -> UnsafeMutablePointer<dirent>? {
        while true {
            errno = 0
            if let entry = readdir(stream) { return entry }
            if errno == 0 { return nil }
            if errno != EINTR { throw .last }
        }
    }
}
