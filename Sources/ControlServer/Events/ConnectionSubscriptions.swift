// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import CoordinationEngine
import LinuxSystem
import NIOCore

/// The subscriptions of one connection to events. Used only on the event loop.
final class ConnectionSubscriptions {
    private struct Subscription {
        /// A subscription is sent events of items at or below this path; empty for the root of the mount.
        let path: [UInt8]
        /// The last event that was not sent, because too many checks were waiting or the guest's quota was used up; nil if all
        /// were sent.
        ///
        /// After the events that are being checked, one event of the kind `gap` is sent for all events that were left out.
        var coalescedEvent: EventFeed.FeedEvent?

        func covers(_ path: [UInt8]) -> Bool { self.path.isEmpty || path.isPath(atOrBelow: self.path) }
    }

    private unowned let connection: ClientConnection
    private let services: SharedServices
    private var subscriptions: [UInt64: Subscription] = [:]
    private var subscribing = 0
    private var isClosed = false
    private var pendingChecks = 0
    /// Whether the guest's quota of events is used up. When the quota is renewed, the client is told by an event of the kind
    /// `gap` that events were left out.
    private var isOverQuota = false

    init(of connection: ClientConnection, in services: SharedServices) {
        self.connection = connection
        self.services = services
    }

    func subscribe(_ parameters: SubscribeParameters, answering id: MessageID) {
        guard subscriptions.count + subscribing < ProtocolLimits.subscriptions else {
            return connection.answer(
                id, .tooMany("a connection has at most \(ProtocolLimits.subscriptions) subscriptions"))
        }
        subscribing += 1
        connection.begin(id)
        connection.onWorkQueue { [guest = services.guest(connection.peer)] _, _ throws(ProtocolFailure) in
            _ = try guest?.checkedToLook(at: parameters.path)
        } then: { result in
            switch result {
            case .failure(let failure): self.conclude(id, .failure(failure))
            case .success: self.join(parameters, answering: id)
            }
        }
    }

    private func join(_ parameters: SubscribeParameters, answering id: MessageID) {
        services.feed.value.join(self, after: parameters.after) { [weak self] event in
            self?.receive(event)
        } then: { [weak self] result in
            guard let self else { return }
            // The connection ended while the feed was starting, so this object leaves the feed.
            guard !isClosed else { return services.feed.value.leave(self) }
            let number = services.engine.makeClaimID().rawValue
            conclude(
                id,
                result.map {
                    .subscribe(
                        SubscribeResult(
                            subscription: number, epoch: $0.epoch, sequence: $0.sequence, hasGap: $0.hasGap))
                })
            guard case .success(let beginning) = result else { return leaveIfIdle() }
            subscriptions[number] = Subscription(path: parameters.path.bytes ?? [])
            for event in beginning.missed { tell(event, to: [number]) }
        }
    }

    private func conclude(_ id: MessageID, _ result: Result<Response, ProtocolFailure>) {
        subscribing -= 1
        connection.finish(id, result)
    }

    func unsubscribe(_ subscription: UInt64, answering id: MessageID) {
        connection.begin(id)
        guard subscriptions.removeValue(forKey: subscription) != nil else {
            return connection.finish(
                id, .failure(.notFound("you have no subscription \(subscription)")))
        }
        leaveIfIdle()
        connection.finish(id, .success(.done(EmptyResult())))
    }

    /// Ends all subscriptions of the connection.
    func close() {
        isClosed = true
        subscriptions = [:]
        services.feed.value.leave(self)
    }

    private func leaveIfIdle() {
        if subscriptions.isEmpty { services.feed.value.leave(self) }
    }

    private func receive(_ event: EventFeed.FeedEvent) { tell(event, to: Array(subscriptions.keys)) }

    private func tell(_ event: EventFeed.FeedEvent, to numbers: [UInt64]) {
        let matching = numbers.filter { number in
            guard let subscription = subscriptions[number] else { return false }
            return event.kind == .gap || event.path.map(subscription.covers) ?? false
                || event.newPath.map(subscription.covers) ?? false
        }
        guard !matching.isEmpty else { return }
        guard let guest = services.guest(connection.peer) else {
            for number in matching { tell(event, number, .allowed, .allowed) }
            return
        }
        guard services.feed.value.chargeQuota(of: connection.peer.user, matching.count) else {
            return deferUntilQuotaRenewed(matching, event)
        }
        check(event, matching, for: guest)
    }

    /// Does not send an event, because the guest's quota is used up. When the quota is renewed, an event of the kind `gap` is
    /// sent.
    private func deferUntilQuotaRenewed(_ matching: [UInt64], _ event: EventFeed.FeedEvent) {
        for number in matching { subscriptions[number]?.coalescedEvent = event }
        guard !isOverQuota else { return }
        isOverQuota = true
        services.feed.value.whenRenewed(connection.peer.user) { [weak self] in
            self?.isOverQuota = false
            self?.sendCoalescedGaps()
        }
    }

    /// Checks whether a guest may see an event. One check is for all subscriptions of the guest on this connection.
    ///
    /// Each event is checked, because the guest's rights can change. The work queue does not change the order of the events.
    private func check(_ event: EventFeed.FeedEvent, _ matching: [UInt64], for guest: Guest) {
        let isFull = pendingChecks >= ProtocolLimits.checksOfGuest
        let later = matching.filter { isFull || subscriptions[$0]?.coalescedEvent != nil }
        for number in later { subscriptions[number]?.coalescedEvent = event }
        let numbers = later.isEmpty ? matching : matching.filter { !later.contains($0) }
        guard !numbers.isEmpty else { return }
        pendingChecks += 1
        connection.onWorkQueue { [services] _, _ throws(ProtocolFailure) in
            let guest = guest.recent(since: event.moment, in: services)
            let visibility = { (path: [UInt8]?, directory: ItemID?) in
                path.map { guest.visibility(of: $0, in: directory, by: services.documents) } ?? .denied
            }
            return (visibility(event.path, event.directory), visibility(event.newPath, event.newDirectory))
        } then: { result in
            self.pendingChecks -= 1
            defer { self.sendCoalescedGaps() }
            guard case .success(let (old, new)) = result else { return }
            for number in numbers { self.tell(event, number, old, new) }
        }
    }

    /// Sends an event to a subscription, with only those paths that the user may see.
    private func tell(
        _ event: EventFeed.FeedEvent, _ number: UInt64, _ visibility: Guest.Visibility,
        _ newVisibility: Guest.Visibility
    ) {
        guard let subscription = subscriptions[number] else { return }
        let path = event.path.flatMap { subscription.covers($0) ? $0 : nil }
        let newPath = event.newPath.flatMap { subscription.covers($0) ? $0 : nil }
        let isUnknown = path != nil && visibility == .unknown || newPath != nil && newVisibility == .unknown
        if event.kind == .gap || isUnknown { return sendGap(event, number) }
        let (seen, newSeen) = (visibility == .allowed ? path : nil, newVisibility == .allowed ? newPath : nil)
        if seen != nil || newSeen != nil { send(event, number, seen, newSeen) }
    }

    /// Sends an event of the kind `gap` for the events that were left out. It passes through the work queue, so it follows the
    /// events that are being checked.
    private func sendCoalescedGaps() {
        guard pendingChecks < ProtocolLimits.checksOfGuest, !isOverQuota else { return }
        for (number, subscription) in subscriptions {
            guard let last = subscription.coalescedEvent else { continue }
            subscriptions[number]?.coalescedEvent = nil
            pendingChecks += 1
            connection.onWorkQueue { _, _ throws(ProtocolFailure) in
            } then: { (_: Result<Void, ProtocolFailure>) in
                self.pendingChecks -= 1
                if self.subscriptions[number] != nil { self.sendGap(last, number) }
                self.sendCoalescedGaps()
            }
        }
    }

    private func send(_ event: EventFeed.FeedEvent, _ number: UInt64, _ path: [UInt8]?, _ newPath: [UInt8]?) {
        guard subscriptions[number] != nil, !connection.hasGap(for: number) else { return }
        guard event.kind != .gap else { return sendGap(event, number) }
        let encoded = { [services] in
            try services.feed.value.encoder.encode(event, to: number, path: path, newPath: newPath)
        }
        connection.push(encoded: encoded, about: number, orGap: Self.gap(event, number))
    }

    private func sendGap(_ event: EventFeed.FeedEvent, _ number: UInt64) {
        guard !connection.hasGap(for: number) else { return }
        let gap = Self.gap(event, number)
        connection.push(encoded: { try gap.encoded() }, about: number, orGap: gap)
    }

    private static func gap(_ event: EventFeed.FeedEvent, _ number: UInt64) -> ServerMessage {
        .event(EventForm(subscription: number, sequence: event.sequence, kind: .gap))
    }
}
