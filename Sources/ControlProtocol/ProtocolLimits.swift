// SPDX-License-Identifier: Apache-2.0

/// Every limit of the control socket, named with its unit.
package enum ProtocolLimits {
    /// The one version of the protocol that is spoken.
    package static let version = 1
    /// A line, or the body behind a `Content-Length`.
    package static let messageBytes = 1 << 20
    /// Arrays and objects inside one another: ours have five.
    package static let nesting = 64
    /// Combining marks that follow one another: more than a name of a file has room for, and than is ever quoted.
    package static let combiningMarks = 256
    /// Values of one message of a client's: the longest of ours have a tenth of that.
    package static let values = 4096
    /// Of a member's name, in bytes as it is written, and of a method's.
    package static let nameBytes = 256
    /// Of an `id` that is a text.
    package static let idBytes = 256
    /// Of a client's `name`, and of its `version`.
    package static let clientBytes = 256
    /// Of the `epoch` of a position among the events.
    package static let epochBytes = 64
    /// Requests of one connection that are being served at once, accesses that wait not included; more wait in the
    /// socket.
    package static let outstandingRequests = 64
    package static let connectionsPerUser = 64
    /// New connections of a user who is a guest: so many at once, and then so many a second.
    package static let connectionsAtOnce = 1000
    package static let connectionsPerSecond = 200
    package static let presenters = 1024
    /// Accesses of one connection that wait or are held.
    package static let accesses = 1024
    /// Of one access, and accesses that one is made within.
    package static let intents = 64
    package static let subscriptions = 16
    /// What happened last in a mount, for those who subscribe again.
    package static let events = 4096
    /// How long it is remembered when nobody is subscribed, in seconds.
    package static let eventSeconds = 300
    /// What may wait to be read by a client before its next request is looked at, and before it is closed if
    /// presenters' messages are among it.
    package static let outboxBytes = 1 << 20
    package static let outboxMessages = 1024
    /// What each presenter of a client adds to that: one event may be told to all of them before anything can be written.
    package static let outboxBytesOfPresenter = 1 << 10
    package static let outboxMessagesOfPresenter = 4
    /// How many messages of one client are looked at before others have their turn, and how many bytes.
    package static let messagesPerRead = 64
    package static let bytesPerRead = 64 << 10
    /// Of all connections of a user who is a guest.
    package static let presentersOfGuest = 1024
    /// Items of all accesses of a guest's, waiting or held, over all its connections.
    package static let itemsOfGuest = 4096
    /// Files that a guest's accesses wait for, over all its connections: so many questions it may have others asked.
    package static let intentsOfGuest = 64
    /// What all subscriptions of a guest's are told in so many seconds, together, before they are told that there was more.
    package static let eventsOfGuest = 4096
    package static let eventsOfGuestSeconds = Int64(4)
    /// Messages to one connection of a guest's that wait for the kernel to say whether it may have them.
    package static let checksOfGuest = 256
    /// Requests to one client whose answers have not come, those that are too late included.
    package static let questions = 1024
    /// What one `kept/read` returns, so that its base64 fits into a message.
    package static let readBytes = 512 << 10
    /// Entries that one `kept/list`, `why` or `ps` returns.
    package static let listEntries = 1000
    /// What they and the lists of `status` may have in JSON, so that a reply fits into a message.
    package static let listBytes = 1_000_000
    /// As long as the kernel lets a path be.
    package static let pathBytes = 4095
    /// Of all paths of one access: each name in them is looked up, and others wait meanwhile.
    package static let accessPathBytes = 64 << 10
    /// Names that are looked up to follow the links of one access.
    package static let linkLookups = 20_000
    package static let purposeBytes = 256
    /// How much of somebody else's words is repeated.
    package static let excerptScalars = 200
}
