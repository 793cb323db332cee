// SPDX-License-Identifier: Apache-2.0
import Glibc

/// What the store of kept files has to tell apart, to name it in its own words.
extension Errno {
    package static let noSpace = Errno(rawValue: ENOSPC)
    package static let quotaExceeded = Errno(rawValue: EDQUOT)
    package static let linkLoop = Errno(rawValue: ELOOP)
}
