// SPDX-License-Identifier: Apache-2.0

/// A position in the events of a mount: the last event that a client has seen.
package struct EventPosition: Hashable, Sendable, Codable {
    /// The name of the epoch in which the daemon has numbered the event. In another epoch, the same number means another event.
    ///
    /// A new epoch begins when the daemon starts. It also begins when there was no subscription for
    /// ``ProtocolLimits/eventSeconds``.
    package var epoch: String
    /// The number of the last event that the client has seen.
    package var sequence: UInt64

    package init(epoch: String, sequence: UInt64) {
        self.epoch = epoch
        self.sequence = sequence
    }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        let epoch = try container.decode(String.self, forKey: .epoch)
        self.epoch = try epoch.checked("after.epoch", ProtocolLimits.epochBytes)
        sequence = try container.decode(UInt64.self, forKey: .sequence)
    }
}

package struct SubscribeParameters: Hashable, Sendable, Codable {
    private enum Key: String, CodingKey { case after }

    /// The client is sent the events of items at or below this path.
    package var path: PathForm
    /// The position of the last event that the client has seen. The client is sent all events after it. If it is nil, the
    /// client is sent the events from now on.
    package var after: EventPosition?

    package init(path: [UInt8] = [], after position: EventPosition? = nil) {
        self.path = PathForm(path)
        after = position
    }

    package init(from decoder: any Decoder) throws {
        path = try PathForm(from: decoder).checkedBelowRoot()
        let container = try decoder.container(keyedBy: Key.self)
        after = try container.decodeIfPresent(EventPosition.self, forKey: .after)
    }

    package func encode(to encoder: any Encoder) throws {
        try path.encode(to: encoder)
        var container = encoder.container(keyedBy: Key.self)
        try container.encodeIfPresent(after, forKey: .after)
    }
}

package struct SubscribeResult: Hashable, Sendable, Codable {
    package var subscription: UInt64
    package var epoch: String
    /// The number of the last event before the subscription begins. The client is sent all events with greater numbers.
    package var sequence: UInt64
    /// Whether some events after `after` are missing, because the daemon does not remember them any more. The client must then
    /// examine the files itself.
    package var hasGap: Bool

    package init(subscription: UInt64, epoch: String, sequence: UInt64, hasGap: Bool) {
        self.subscription = subscription
        self.epoch = epoch
        self.sequence = sequence
        self.hasGap = hasGap
    }
}

package struct UnsubscribeParameters: Hashable, Sendable, Codable {
    package var subscription: UInt64
    package init(subscription: UInt64) { self.subscription = subscription }
}

/// The kind of an event about a name in a mount.
package enum EventKind: String, Hashable, Sendable, Codable, CaseIterable {
    case appeared
    /// The contents or attributes of the item were written.
    case changed
    /// The item moved from `path` to `newPath`. A path outside the subscription is left out.
    case moved
    case deleted
    /// Some events were not sent to the client, because there were too many. The client must examine the files itself.
    case gap
}

/// The parameters of `events/event`.
package struct EventForm: Hashable, Sendable, Codable {
    package var subscription: UInt64
    /// The number of the event. It grows with each event of the mount, even with events that this client is not sent.
    package var sequence: UInt64
    package var kind: EventKind
    package var path: String?
    package var pathBytes: String?
    package var newPath: String?
    package var newPathBytes: String?
    /// The program that caused the event; nil if the kind is `gap`.
    package var cause: CauseForm?

    package init(
        subscription: UInt64, sequence: UInt64, kind: EventKind, path: [UInt8]? = nil,
        newPath: [UInt8]? = nil, cause: CauseForm? = nil
    ) {
        self.subscription = subscription
        self.sequence = sequence
        self.kind = kind
        if let path { (self.path, self.pathBytes) = PathForm(path).parts }
        if let newPath { (self.newPath, self.newPathBytes) = PathForm(newPath).parts }
        self.cause = cause
    }

    /// The bytes of `path`; nil if the event has no path, or if `pathBytes` is not base64.
    package var bytesOfPath: [UInt8]? { path.flatMap { PathForm($0, pathBytes).bytes } }
    package var bytesOfNewPath: [UInt8]? { newPath.flatMap { PathForm($0, newPathBytes).bytes } }

    package static let method = "events/event"
}
