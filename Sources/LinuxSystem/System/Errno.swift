// SPDX-License-Identifier: Apache-2.0
import Glibc

/// An error number from the operating system.
///
/// Errors stay numbers in all layers, because the answer to the kernel must contain the number (`fuse_reply_err`).
package struct Errno: Error, Hashable, Sendable, CustomStringConvertible {
    package let rawValue: CInt

    package init(rawValue: CInt) { self.rawValue = rawValue }

    /// The value of `errno` for the calling thread. Callers must read it before they make another call.
    package static var last: Errno { Errno(rawValue: errno) }

    package static let noEntry = Errno(rawValue: ENOENT)
    package static let noProcess = Errno(rawValue: ESRCH)
    package static let interrupted = Errno(rawValue: EINTR)
    package static let deadlock = Errno(rawValue: EDEADLK)
    package static let stale = Errno(rawValue: ESTALE)
    package static let io = Errno(rawValue: EIO)
    package static let busy = Errno(rawValue: EBUSY)
    package static let badDescriptor = Errno(rawValue: EBADF)
    package static let exists = Errno(rawValue: EEXIST)
    package static let notPermitted = Errno(rawValue: EPERM)
    package static let noAccess = Errno(rawValue: EACCES)
    package static let invalid = Errno(rawValue: EINVAL)
    package static let noAttribute = Errno(rawValue: ENODATA)
    package static let outOfRange = Errno(rawValue: ERANGE)
    package static let unsupported = Errno(rawValue: EOPNOTSUPP)
    package static let crossDevice = Errno(rawValue: EXDEV)
    package static let readOnly = Errno(rawValue: EROFS)
    package static let notImplemented = Errno(rawValue: ENOSYS)

    package var description: String { strerror(rawValue).map { String(cString: $0) } ?? "error \(rawValue)" }
}

/// Runs a system call, and runs it again if a signal has interrupted it.
@inline(__always)
package func retryingOnInterrupt<R: SignedInteger>(_ call: () -> R) throws(Errno) -> R {
    while true {
        let result = call()
        if result != -1 { return result }
        if errno != EINTR { throw .last }
    }
}
