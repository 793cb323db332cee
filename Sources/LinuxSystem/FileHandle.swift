// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// A file's name for life on its file system, whatever it is called: `name_to_handle_at(2)`.
package struct FileHandle: Sendable {
    fileprivate let bytes: [UInt8]
}

extension OwnedDescriptor {
    /// Throws EOPNOTSUPP where the file system has no such names.
    package borrowing func fileHandle() throws(Errno) -> FileHandle {
        var bytes = [UInt8](repeating: 0, count: Int(CLINUX_HANDLE_SIZE))
        let descriptor = rawValue
        let count = bytes.withUnsafeMutableBytes { clinux_file_handle(descriptor, $0.baseAddress) }
        guard count > 0 else { throw .last }
        return FileHandle(bytes: Array(bytes[..<Int(count)]))
    }

    /// `open_by_handle_at(2)` with `O_PATH`, on the file system of this open directory (`O_PATH` is not enough).
    ///
    /// Throws EPERM without CAP_DAC_READ_SEARCH, and ESTALE if the file is gone.
    package borrowing func path(of handle: FileHandle) throws(Errno) -> OwnedDescriptor {
        let directory = rawValue
        return OwnedDescriptor(
            adopting: try retryingOnInterrupt {
                handle.bytes.withUnsafeBytes { clinux_open_handle(directory, $0.baseAddress) }
            })
    }
}
