// SPDX-License-Identifier: Apache-2.0
package import LinuxSystem

/// Who is at the other end of a connection, as the kernel noted it; nothing a client says about itself matters.
package struct Peer: Hashable, Sendable {
    package let credentials: PeerCredentials
    /// Besides the primary group.
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
    /// All of them: the kernel asks whether a file's group is among them, not which one it is.
    package var groups: [UInt32] { [credentials.group] + supplementaryGroups }
}
