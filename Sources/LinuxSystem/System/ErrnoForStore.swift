// SPDX-License-Identifier: Apache-2.0
import Glibc

/// The errors that the store of preserved files and the clients of the socket distinguish, to describe them in their own
/// words.
extension Errno {
    package static let noSpace = Errno(rawValue: ENOSPC)
    package static let quotaExceeded = Errno(rawValue: EDQUOT)
    package static let brokenPipe = Errno(rawValue: EPIPE)
    package static let linkLoop = Errno(rawValue: ELOOP)
}
