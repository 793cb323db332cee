// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// The one owner of an open file descriptor.
///
/// Non-copyable: a descriptor cannot be closed twice, used after it was closed, or forgotten.
package struct OwnedDescriptor: ~Copyable, Sendable {
    package let rawValue: CInt

    package init(adopting rawValue: CInt) {
        precondition(rawValue >= 0)
        self.rawValue = rawValue
    }

    // Last resort: there is nobody left to hear about an error.
    deinit { _ = Glibc.close(rawValue) }

    /// Gives up ownership, to something that closes the descriptor itself.
    package consuming func release() -> CInt {
        let rawValue = rawValue
        discard self
        return rawValue
    }

    /// Takes a second descriptor for the same open file.
    package static func duplicating(_ descriptor: CInt) throws(Errno) -> OwnedDescriptor {
        OwnedDescriptor(adopting: try retryingOnInterrupt { fcntl(descriptor, F_DUPFD_CLOEXEC, 0) })
    }

    /// `open(2)` with `O_PATH`: names the directory without opening it.
    package static func openPath(_ path: UnsafePointer<CChar>) throws(Errno) -> OwnedDescriptor {
        let flags = CLINUX_O_PATH | O_DIRECTORY | O_CLOEXEC
        return OwnedDescriptor(adopting: try retryingOnInterrupt { open(path, flags) })
    }

    /// `fstat(2)`.
    package borrowing func status() throws(Errno) -> FileStatus {
        var status = stat()
        guard fstat(rawValue, &status) == 0 else { throw .last }
        return FileStatus(status)
    }
}
