// SPDX-License-Identifier: Apache-2.0

/// The limits of the control socket. The name of each limit contains its unit.
package enum ProtocolLimits {
    /// The version of the protocol that this daemon and its clients use.
    package static let version = 1
    /// The most bytes of a message: of a line, or of the body after a `Content-Length` header.
    package static let messageBytes = 1 << 20
    /// The most levels of nested arrays and objects in a message. Truce's own messages have five levels.
    package static let nesting = 64
    /// The most combining marks after one letter. File names and quoted texts never have more.
    package static let combiningMarks = 256
    /// The most JSON values in a client's message. The longest messages of Truce's own clients have only a tenth of this
    /// number.
    package static let values = 4096
    /// The most bytes of a member's name in JSON, and of a method's name.
    package static let nameBytes = 256
    /// The most bytes of a request's `id`, if the `id` is a text.
    package static let idBytes = 256
    /// The most bytes of a client's `name` in `initialize`, and of its `version`.
    package static let clientBytes = 256
    /// The most bytes of the text `epoch` in an event position. In another epoch, the same number means another event.
    package static let epochBytes = 64
    /// The most requests of a connection that the daemon serves at the same time. Accesses that wait to begin are not counted.
    ///
    /// The same number of requests can wait in the daemon to be served. Further requests wait in the buffer of the socket.
    package static let outstandingRequests = 64
    package static let connectionsPerUser = 64
    /// The most connections that a guest can make at the same time. After that, `connectionsPerSecond` new connections are
    /// allowed each second.
    package static let connectionsAtOnce = 1000
    package static let connectionsPerSecond = 200
    package static let presenters = 1024
    /// The most accesses of a connection that wait or are held.
    package static let accesses = 1024
    /// The most intents of an access, and the most numbers of accesses in the member `within` of an access.
    package static let intents = 64
    /// The most subscriptions of a connection, and the most `history/watch` that wait.
    package static let subscriptions = 16
    /// The most runs of a connection, and the most globs in each list of a run.
    package static let runs = 16
    package static let globs = 64
    /// How long a `history/watch` waits for an event at most, in seconds.
    package static let watchSeconds = Int64(20)
    /// The most events that the daemon remembers. A client that subscribes again is sent the remembered events that it has not
    /// seen.
    package static let events = 4096
    /// How long the daemon remembers events after the last subscription has ended, in seconds.
    package static let eventSeconds = 300
    /// The most bytes of messages to one client that wait to be sent. While more bytes wait, the daemon serves no further
    /// request of the client.
    ///
    /// If the waiting bytes of questions, notices and events alone exceed this limit, the connection is closed.
    package static let outboxBytes = 1 << 20
    package static let outboxMessages = 1024
    /// How many bytes each presenter of a client adds to the limit of waiting bytes.
    ///
    /// One event can cause a message to each presenter of the client before the first message is sent.
    package static let outboxBytesOfPresenter = 1 << 10
    package static let outboxMessagesOfPresenter = 4
    /// How many messages or bytes of one client the daemon reads before it serves the other clients.
    package static let messagesPerRead = 64
    package static let bytesPerRead = 64 << 10
    /// The most presenters of all connections of a guest together.
    package static let presentersOfGuest = 1024
    /// The most items in all waiting and held accesses of a guest, on all its connections together.
    package static let itemsOfGuest = 4096
    /// The most items in all waiting accesses of a guest, on all its connections together.
    ///
    /// The limit is low, because each waiting item can cause questions to presenters of other users.
    package static let intentsOfGuest = 64
    /// The most events that all subscriptions of a guest are sent in `eventsOfGuestSeconds`. After that, one event of the kind
    /// `gap` replaces all further events.
    package static let eventsOfGuest = 4096
    package static let eventsOfGuestSeconds = Int64(4)
    /// The most messages to one connection of a guest that wait until the guest's rights are checked.
    package static let checksOfGuest = 256
    /// The most questions to a client that have no answer yet. Questions after their deadline are counted too.
    package static let questions = 1024
    /// The most bytes of a program's or run's name in `versions/list`.
    package static let actorBytes = 255
    /// The most bytes that `versions/show` returns. Their base64 form fits into one message.
    package static let readBytes = 512 << 10
    /// The most entries in a list that `versions/list`, `why` or `ps` returns.
    package static let listEntries = 1000
    /// The most bytes of all lists in a `versions/list`, `why`, `ps` or `status` reply, as JSON. With this limit, the reply
    /// fits into one message.
    package static let listBytes = 1_000_000
    /// The most bytes of a path, as in the kernel.
    package static let pathBytes = 4095
    /// The most bytes of all paths of an access together. Other requests wait while the daemon looks up each name in these
    /// paths.
    package static let accessPathBytes = 64 << 10
    /// The most names that the daemon looks up to follow the symbolic links of one access.
    package static let linkLookups = 20_000
    package static let purposeBytes = 256
    package static let generationBytes = 128
    /// The most changes of versions that wait until presenters are told of them. If there are more, those of one document and
    /// kind become one change without a version.
    package static let versionNotices = 4096
    /// The most characters (Unicode scalars) of a client's text that the daemon quotes in an error message.
    package static let excerptScalars = 200
}
