// SPDX-License-Identifier: Apache-2.0
import Glibc

/// What the store of kept files and the clients of the socket have to tell apart, to put it into their own words.
extension Errno {
    package static let noSpace = Errno(rawValue: ENOSPC)
    package static let quotaExceeded = Errno(rawValue: EDQUOT)
    package static let brokenPipe = Errno(rawValue: EPIPE)
    package static let linkLoop = Errno(rawValue: ELOOP)
}
