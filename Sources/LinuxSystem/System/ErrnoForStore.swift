// SPDX-License-Identifier: Apache-2.0
import Glibc

/// The errors that the store of versions and the clients of the control socket distinguish, because each error has its own
/// message.
extension Errno {
    package static let noSpace = Errno(rawValue: ENOSPC)
    package static let quotaExceeded = Errno(rawValue: EDQUOT)
    package static let brokenPipe = Errno(rawValue: EPIPE)
    package static let linkLoop = Errno(rawValue: ELOOP)
}
