// SPDX-License-Identifier: Apache-2.0
import Glibc

extension Errno: CustomStringConvertible {
    /// The system's own words, as `strerror(3)` has them.
    package var description: String { String(cString: strerror(rawValue)) }

    package static let notPermitted = Errno(rawValue: EPERM)
    package static let accessDenied = Errno(rawValue: EACCES)
    package static let busy = Errno(rawValue: EBUSY)
    package static let exists = Errno(rawValue: EEXIST)
    package static let notADirectory = Errno(rawValue: ENOTDIR)
    package static let notConnected = Errno(rawValue: ENOTCONN)
    package static let connectionRefused = Errno(rawValue: ECONNREFUSED)
    package static let noData = Errno(rawValue: ENODATA)
    package static let wouldBlock = Errno(rawValue: EWOULDBLOCK)
}
