// SPDX-License-Identifier: Apache-2.0
import Glibc

/// What the command has to tell apart, to say what to do about it.
extension Errno {
    package static let notADirectory = Errno(rawValue: ENOTDIR)
    package static let notConnected = Errno(rawValue: ENOTCONN)
    package static let connectionRefused = Errno(rawValue: ECONNREFUSED)
    package static let noDevice = Errno(rawValue: ENODEV)
    package static let noAddress = Errno(rawValue: ENXIO)
    package static let connectionReset = Errno(rawValue: ECONNRESET)
    package static let wouldBlock = Errno(rawValue: EWOULDBLOCK)
}
