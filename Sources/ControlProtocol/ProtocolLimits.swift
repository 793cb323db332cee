// SPDX-License-Identifier: Apache-2.0

/// The limits of the control socket. The name of each limit contains its unit.
package enum ProtocolLimits {
    /// The version of the protocol that this daemon and its clients use.
    package static let version = 1
    /// The most bytes of a message: of a line, or of the body after a `Content-Length` header.
    package static let messageBytes = 1 << 20
    /// The most levels of nested arrays and objects in a message. Truce's own messages have five levels.
    package static let nesting = 64
    /// The most combining marks after one letter. A file name cannot have more, and no text that is quoted has more.
    package static let combiningMarks = 256
    /// The most JSON values in a client's message. The longest messages of Truce's own clients have a tenth of this number.
    package static let values = 4096
    /// The most bytes of a member's name, as it is written in JSON, and of a method's name.
    package static let nameBytes = 256
    /// The most bytes of a request's `id`, if the `id` is a text.
    package static let idBytes = 256
    /// The most bytes of a client's `name` in `initialize`, and of its `version`.
    package static let clientBytes = 256
    /// The most bytes of the `epoch` of an event position, which names the epoch in which the events are numbered.
    package static let epochBytes = 64
    /// The most requests of a connection that the daemon serves at the same time. Accesses that wait to begin are not counted.
    ///
    /// The same number of further requests waits in the daemon. If a client sends still more, they wait in the socket's buffer.
    package static let outstandingRequests = 64
    package static let connectionsPerUser = 64
    /// The most new connections of a guest in a moment. Later, `connectionsPerSecond` new connections are allowed each second.
    package static let connectionsAtOnce = 1000
    package static let connectionsPerSecond = 200
    package static let presenters = 1024
    /// The most accesses of a connection that wait or are held.
    package static let accesses = 1024
    /// The most intents of an access, and the most accesses that `within` of an access names.
    package static let intents = 64
    package static let subscriptions = 16
    /// The most events that the daemon remembers. A client that subscribes again is sent those that it has not seen.
    package static let events = 4096
    /// How long the daemon remembers events after the last subscription has ended, in seconds.
    package static let eventSeconds = 300
    /// The bytes of messages to a client that may wait. While more bytes wait, the daemon serves no further request of the
    /// client.
    ///
    /// Some messages are not replies, for example questions, notices and events. If their waiting bytes exceed this limit, the
    /// connection is closed.
    package static let outboxBytes = 1 << 20
    package static let outboxMessages = 1024
    /// How many bytes and messages each presenter of a client adds to the two outbox limits.
    ///
    /// One event may cause a message to each presenter of the client before the first message can be written.
    package static let outboxBytesOfPresenter = 1 << 10
    package static let outboxMessagesOfPresenter = 4
    /// How many messages and bytes of one client the daemon reads before it serves other clients.
    package static let messagesPerRead = 64
    package static let bytesPerRead = 64 << 10
    /// The most presenters of all connections of a guest together.
    package static let presentersOfGuest = 1024
    /// The most items in all accesses of a guest that wait or are held, for all its connections together.
    package static let itemsOfGuest = 4096
    /// The most items in all accesses of a guest that still wait, for all its connections together.
    ///
    /// Each waiting item may cause questions to presenters of other users, so this limits those questions.
    package static let intentsOfGuest = 64
    /// The most events that all subscriptions of a guest are sent in `eventsOfGuestSeconds`. An event of the kind `gap` then
    /// stands for all further events.
    package static let eventsOfGuest = 4096
    package static let eventsOfGuestSeconds = Int64(4)
    /// The most messages to one connection of a guest that wait until the guest's rights are checked.
    package static let checksOfGuest = 256
    /// The most questions to a client without an answer. Questions with a deadline that has passed are counted too.
    package static let questions = 1024
    /// The most bytes that `kept/read` returns. Their base64 form fits into one message.
    package static let readBytes = 512 << 10
    /// The most entries in a list that `kept/list`, `why` or `ps` returns.
    package static let listEntries = 1000
    /// The most bytes that the lists of a `kept/list`, `why`, `ps` or `status` reply take as JSON. So the reply fits into one
    /// message.
    package static let listBytes = 1_000_000
    /// The most bytes of a path, as in the kernel.
    package static let pathBytes = 4095
    /// The most bytes of all paths of an access together. The daemon looks up each name in these paths while other requests
    /// wait.
    package static let accessPathBytes = 64 << 10
    /// The most names that the daemon looks up to follow the symbolic links of one access.
    package static let linkLookups = 20_000
    package static let purposeBytes = 256
    /// The most characters (Unicode scalars) of a client's text that the daemon quotes in an error message.
    package static let excerptScalars = 200
}
