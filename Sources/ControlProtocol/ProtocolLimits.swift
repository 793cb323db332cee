// SPDX-License-Identifier: Apache-2.0

/// The limits of the control socket, with their units in their names.
package enum ProtocolLimits {
    /// The version of the protocol.
    package static let version = 1
    /// The bytes of a line, or of the body after a `Content-Length`.
    package static let messageBytes = 1 << 20
    /// The depth of nested arrays and objects; Truce's own messages have five levels.
    package static let nesting = 64
    /// Consecutive combining marks: more than a file name can have, and more than is ever quoted.
    package static let combiningMarks = 256
    /// The values of a client's message; the longest of Truce's own clients have a tenth.
    package static let values = 4096
    /// The encoded bytes of a member's name, and the bytes of a method's name.
    package static let nameBytes = 256
    /// The bytes of an `id` that is a text.
    package static let idBytes = 256
    /// The bytes of a client's `name`, and of its `version`.
    package static let clientBytes = 256
    /// The bytes of the `epoch` of an event position.
    package static let epochBytes = 64
    /// Requests of a connection that are being served, without waiting accesses.
    ///
    /// As many more wait in the daemon; the rest waits in the socket.
    package static let outstandingRequests = 64
    package static let connectionsPerUser = 64
    /// New connections of a guest: this many at once, and then `connectionsPerSecond`.
    package static let connectionsAtOnce = 1000
    package static let connectionsPerSecond = 200
    package static let presenters = 1024
    /// The accesses of a connection that wait or are held.
    package static let accesses = 1024
    /// The intents of an access, and the accesses that it is within.
    package static let intents = 64
    package static let subscriptions = 16
    /// The last events that are remembered for clients that subscribe again.
    package static let events = 4096
    /// How long events are remembered without subscriptions, in seconds.
    package static let eventSeconds = 300
    /// The bytes that may wait for a client before its next request is served.
    ///
    /// If messages that it did not ask for exceed the limit, the connection is closed.
    package static let outboxBytes = 1 << 20
    package static let outboxMessages = 1024
    /// What each presenter of a client adds to these limits.
    ///
    /// An event may be sent to all its presenters before any message can be written.
    package static let outboxBytesOfPresenter = 1 << 10
    package static let outboxMessagesOfPresenter = 4
    /// How many messages and bytes of a client are read before other clients are served.
    package static let messagesPerRead = 64
    package static let bytesPerRead = 64 << 10
    /// The presenters of all connections of a guest.
    package static let presentersOfGuest = 1024
    /// The items of all accesses of a guest, waiting or held, over all its connections.
    package static let itemsOfGuest = 4096
    /// The items that a guest's accesses wait for, over all its connections.
    ///
    /// This bounds the questions that it can cause.
    package static let intentsOfGuest = 64
    /// The events sent to all subscriptions of a guest in `eventsOfGuestSeconds`; then gaps are sent.
    package static let eventsOfGuest = 4096
    package static let eventsOfGuestSeconds = Int64(4)
    /// Messages to a guest's connection that wait for a check of its rights.
    package static let checksOfGuest = 256
    /// Unanswered questions to a client, including those past their deadline.
    package static let questions = 1024
    /// The bytes that a `kept/read` returns, so that their base64 fits into a message.
    package static let readBytes = 512 << 10
    /// The entries that a `kept/list`, `why` or `ps` returns.
    package static let listEntries = 1000
    /// The most bytes of such a list, or of a list in `status`, as JSON. So a reply fits into a message.
    package static let listBytes = 1_000_000
    /// The kernel's limit for a path.
    package static let pathBytes = 4095
    /// The bytes of all paths of an access. Each name in them is looked up, and other requests wait meanwhile.
    package static let accessPathBytes = 64 << 10
    /// The names that are looked up to follow the links of an access.
    package static let linkLookups = 20_000
    package static let purposeBytes = 256
    /// The length of a quotation of a client's text.
    package static let excerptScalars = 200
}
