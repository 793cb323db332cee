// SPDX-License-Identifier: Apache-2.0
import Glibc

/// The calling process.
package enum OwnProcess {
    /// `getpid(2)`.
    package static var id: Int32 { getpid() }
    /// `geteuid(2)`: the user whose rights it has.
    package static var user: UInt32 { geteuid() }
}
