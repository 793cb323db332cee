// SPDX-License-Identifier: Apache-2.0
package import LinuxSystem

/// The process at the other end of a connection, as the kernel recorded it.
///
/// Claims of a client about itself do not count.
package struct Peer: Hashable, Sendable {
    package let credentials: PeerCredentials
    /// The groups besides the primary group.
    package let supplementaryGroups: [UInt32]

    package init(_ credentials: PeerCredentials, supplementaryGroups: [UInt32]) {
        self.credentials = credentials
        self.supplementaryGroups = supplementaryGroups
    }

    package init(of socket: CInt) throws(Errno) {
        self.init(
            try PeerCredentials(of: socket),
            supplementaryGroups: try PeerCredentials.supplementaryGroups(of: socket))
    }

    package var pid: Int32 { credentials.pid }
    package var user: UInt32 { credentials.user }
    /// All groups, because the kernel checks whether a file's group is among them.
    package var groups: [UInt32] { [credentials.group] + supplementaryGroups }
}
