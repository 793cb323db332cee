// SPDX-License-Identifier: Apache-2.0
import Glibc

/// An open directory as a `readdir(3)` stream, which returns the names in the directory.
package struct DirectoryStream: ~Copyable, @unchecked Sendable {
    // @unchecked: any thread may use a DIR, but only one thread at a time. If several threads share a stream, its owner uses a
    // lock.
    private let stream: OpaquePointer
    /// Whether the caller refused the last entry, for example because its buffer was full. The next call passes that entry to
    /// the caller once more.
    private var offersAgain = false
    private var last: UnsafeMutablePointer<dirent>?
    private var position = 0

    package init(reading directory: consuming OwnedDescriptor) throws(Errno) {
        guard let stream = fdopendir(directory.rawValue) else { throw .last }
        self.stream = stream
        _ = directory.release()
    }

    deinit { closedir(stream) }

    /// Calls `body` for each entry from `offset` on, until `body` returns false or no entry is left.
    ///
    /// If `body` returns false for an entry, the next call begins with that entry. The second argument of `body` is the inode
    /// number, the third is `d_type`, and the last is the offset of the next entry. After an error, another call can still
    /// return entries.
    package mutating func forEach(
        from offset: Int, _ body: (borrowing FileName, UInt64, UInt8, Int) -> Bool
    ) throws(Errno) {
        if offset != position {
            seekdir(stream, offset)
            (position, offersAgain) = (offset, false)
        }
        while let entry = try offersAgain ? last : next() {
            // The kernel's record can be shorter than the 256 bytes that C declares for a name. A copy of the C array would
            // read beyond the record, so only a pointer is used.
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

    /// Returns the next entry; nil after the last entry. In C, only `errno` shows whether the end or an error was reached.
    private borrowing func next() throws(Errno) -> UnsafeMutablePointer<dirent>? {
        while true {
            errno = 0
            if let entry = readdir(stream) { return entry }
            if errno == 0 { return nil }
            if errno != EINTR { throw .last }
        }
    }
}
