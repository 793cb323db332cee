// SPDX-License-Identifier: Apache-2.0
import Glibc

/// The errors that the command `truce` distinguishes, because it suggests another remedy for each of them.
extension Errno {
    package static let notADirectory = Errno(rawValue: ENOTDIR)
    package static let notConnected = Errno(rawValue: ENOTCONN)
    package static let connectionRefused = Errno(rawValue: ECONNREFUSED)
    package static let noDevice = Errno(rawValue: ENODEV)
    package static let noAddress = Errno(rawValue: ENXIO)
    package static let connectionReset = Errno(rawValue: ECONNRESET)
    package static let wouldBlock = Errno(rawValue: EWOULDBLOCK)
}
