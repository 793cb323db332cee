// SPDX-License-Identifier: Apache-2.0

/// The last event that a client has seen of a mount.
package struct EventPosition: Hashable, Sendable, Codable {
    /// The epoch in which events are counted; numbers of another epoch are invalid.
    ///
    /// A new epoch begins with the daemon, and at a subscription after ``ProtocolLimits/eventSeconds`` without subscriptions.
    package var epoch: String
    /// The number of the last event seen.
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

    /// Events at or below this path are sent.
    package var path: PathForm
    /// The events after this position are sent first; nil to begin now.
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
    /// The number of the last event before those that are sent.
    package var sequence: UInt64
    /// Whether events after `after` are forgotten, so that the client must look at the files itself.
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

/// A change of a name in a mount.
package enum EventKind: String, Hashable, Sendable, Codable, CaseIterable {
    case appeared
    /// Its contents or attributes were written.
    case changed
    /// From `path` to `newPath`; either is missing if it is outside the subscription.
    case moved
    case deleted
    /// More happened than the client was sent; it must look at the files itself.
    case gap
}

/// The parameters of `events/event`.
package struct EventForm: Hashable, Sendable, Codable {
    package var subscription: UInt64
    /// Grows with each event of the mount, even if this client is not sent it.
    package var sequence: UInt64
    package var kind: EventKind
    package var path: String?
    package var pathBytes: String?
    package var newPath: String?
    package var newPathBytes: String?
    /// Nil for a gap.
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

    /// Nil if there is no path, or if it is not base64.
    package var bytesOfPath: [UInt8]? { path.flatMap { PathForm($0, pathBytes).bytes } }
    package var bytesOfNewPath: [UInt8]? { newPath.flatMap { PathForm($0, newPathBytes).bytes } }

    package static let method = "events/event"
}
