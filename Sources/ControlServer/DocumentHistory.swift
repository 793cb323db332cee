// SPDX-License-Identifier: Apache-2.0
package import ControlProtocol

/// The history of the mount's documents, as the control socket uses it.
///
/// The parameter `peer` is the client's process. The history returns only events of documents that the peer may read by two sets
/// of rights: those at the event, and those that the document has now.
package protocol DocumentHistory: Sendable {
    /// The number of the last event.
    var last: UInt64 { get }

    /// Returns the events that a client asks for, the oldest first. Returns at most one more than the limit, so that the caller
    /// sees whether there are more. Can block.
    func events(_ query: HistoryListParameters, for peer: Peer) throws(VersionAccessFailure)
        -> [HistoryEventForm]

    /// Returns the first events after an event, the oldest first, and at most one more than a reply has. Can block.
    func events(
        after number: UInt64, under path: [UInt8], for peer: Peer
    ) throws(VersionAccessFailure) -> [HistoryEventForm]

    /// Calls `call` after each new event, on any thread, until ``unwatch(_:)`` is called with the returned number.
    func watch(_ call: @escaping @Sendable () -> Void) -> UInt64
    func unwatch(_ watcher: UInt64)
}
