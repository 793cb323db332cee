// SPDX-License-Identifier: Apache-2.0

/// Every limit of the control socket, named with its unit.
package enum ProtocolLimits {
    /// The one version of the protocol that is spoken.
    package static let version = 1
    /// A line, or the body behind a `Content-Length`.
    package static let messageBytes = 1 << 20
    /// Requests of one connection that are being served at once; more wait in the socket.
    package static let outstandingRequests = 64
    package static let connectionsPerUser = 64
    /// What may wait to be read by a client before its next request is looked at.
    package static let outboxBytes = 1 << 20
    /// What one `kept/read` returns, so that its base64 fits into a message.
    package static let readBytes = 512 << 10
    /// Entries that one `kept/list` returns.
    package static let listEntries = 1000
}
