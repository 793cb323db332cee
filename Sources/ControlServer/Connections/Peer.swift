// SPDX-License-Identifier: Apache-2.0
package import LinuxSystem

/// The client's process at the other end of a connection, as the kernel recorded it.
///
/// The daemon trusts only the kernel about the process, and not the client's messages.
package struct Peer: Hashable, Sendable {
    package let credentials: PeerCredentials
    /// The groups of the process other than its primary group.
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
    /// All groups of the process, because the kernel compares all of them with the group of a file.
    package var groups: [UInt32] { [credentials.group] + supplementaryGroups }
}
