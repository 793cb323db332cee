// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import CoordinationEngine
import LinuxSystem
import NIOCore

/// The subscriptions of one connection. On the event loop only.
final class ConnectedEvents {
    private struct Subscription {
        /// What happens at or below it is told; empty for the root.
        let path: [UInt8]
        /// The last of what happened while too much was being checked: a gap is told in its place, after what is checked.
        var unchecked: EventFeed.Event?

        func covers(_ path: [UInt8]) -> Bool { self.path.isEmpty || path.isPath(atOrBelow: self.path) }
    }

    private unowned let connection: ClientConnection
    private let service: Service
    private var subscriptions: [UInt64: Subscription] = [:]
    private var subscribing = 0
    private var isClosed = false
    private var checking = 0
    /// Whether what happens is told as a gap, when its user's share is renewed.
    private var isWaitingForShare = false

    init(of connection: ClientConnection, in service: Service) {
        self.connection = connection
        self.service = service
    }

    func subscribe(_ parameters: SubscribeParameters, answering id: MessageID) {
        guard subscriptions.count + subscribing < ProtocolLimits.subscriptions else {
            return connection.answer(
                id, .tooMany("a connection has at most \(ProtocolLimits.subscriptions) subscriptions"))
        }
        subscribing += 1
        connection.begin(id)
        connection.atDesk { [guest = service.guest(connection.peer)] _, _ throws(Failure) in
            _ = try guest?.checkedToLook(at: parameters.path)
        } then: { result in
            switch result {
            case .failure(let failure): self.conclude(id, .failure(failure))
            case .success: self.join(parameters, answering: id)
            }
        }
    }

    private func join(_ parameters: SubscribeParameters, answering id: MessageID) {
        service.feed.value.join(self, after: parameters.after) { [weak self] event in
            self?.hear(event)
        } then: { [weak self] result in
            guard let self else { return }
            // The connection is gone then, and what it was told with.
            guard !isClosed else { return service.feed.value.leave(self) }
            let number = service.engine.makeClaimID().rawValue
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

    private func conclude(_ id: MessageID, _ result: Result<Response, Failure>) {
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

    /// Nothing is told any more.
    func close() {
        isClosed = true
        subscriptions = [:]
        service.feed.value.leave(self)
    }

    private func leaveIfIdle() {
        if subscriptions.isEmpty { service.feed.value.leave(self) }
    }

    private func hear(_ event: EventFeed.Event) { tell(event, to: Array(subscriptions.keys)) }

    private func tell(_ event: EventFeed.Event, to numbers: [UInt64]) {
        let heard = numbers.filter { number in
            guard let subscription = subscriptions[number] else { return false }
            return event.kind == .gap || event.path.map(subscription.covers) ?? false
                || event.newPath.map(subscription.covers) ?? false
        }
        guard !heard.isEmpty else { return }
        guard let guest = service.guest(connection.peer) else {
            for number in heard { tell(event, number, .allowed, .allowed) }
            return
        }
        guard service.feed.value.takeShare(of: connection.peer.user, heard.count) else {
            return waitForShare(heard, event)
        }
        check(event, heard, for: guest)
    }

    /// A guest has been told so much that it is told of the rest as a gap, later.
    private func waitForShare(_ heard: [UInt64], _ event: EventFeed.Event) {
        for number in heard { subscriptions[number]?.unchecked = event }
        guard !isWaitingForShare else { return }
        isWaitingForShare = true
        service.feed.value.whenRenewed(connection.peer.user) { [weak self] in
            self?.isWaitingForShare = false
            self?.sendUncheckedGaps()
        }
    }

    /// Each time, since rights change; once for all of the connection's subscriptions; and in order, since the desk does one
    /// thing after the other.
    private func check(_ event: EventFeed.Event, _ heard: [UInt64], for guest: Guest) {
        let isFull = checking >= ProtocolLimits.checksOfGuest
        let later = heard.filter { isFull || subscriptions[$0]?.unchecked != nil }
        for number in later { subscriptions[number]?.unchecked = event }
        let numbers = later.isEmpty ? heard : heard.filter { !later.contains($0) }
        guard !numbers.isEmpty else { return }
        checking += 1
        connection.atDesk { [service] _, _ throws(Failure) in
            let guest = guest.recent(since: event.moment, in: service)
            let hearing = { (path: [UInt8]?, directory: ItemID?) in
                path.map { guest.hearing(of: $0, in: directory, by: service.documents) } ?? .denied
            }
            return (hearing(event.path, event.directory), hearing(event.newPath, event.newDirectory))
        } then: { result in
            self.checking -= 1
            defer { self.sendUncheckedGaps() }
            guard case .success(let (old, new)) = result else { return }
            for number in numbers { self.tell(event, number, old, new) }
        }
    }

    /// What one subscription hears of it, as far as its user may.
    private func tell(
        _ event: EventFeed.Event, _ number: UInt64, _ hearing: Guest.Hearing, _ newHearing: Guest.Hearing
    ) {
        guard let subscription = subscriptions[number] else { return }
        let path = event.path.flatMap { subscription.covers($0) ? $0 : nil }
        let newPath = event.newPath.flatMap { subscription.covers($0) ? $0 : nil }
        let isUnknown = path != nil && hearing == .unknown || newPath != nil && newHearing == .unknown
        if event.kind == .gap || isUnknown { return sendGap(event, number) }
        let (seen, newSeen) = (hearing == .allowed ? path : nil, newHearing == .allowed ? newPath : nil)
        if seen != nil || newSeen != nil { send(event, number, seen, newSeen) }
    }

    /// By way of the desk, where everything before them is.
    private func sendUncheckedGaps() {
        guard checking < ProtocolLimits.checksOfGuest, !isWaitingForShare else { return }
        for (number, subscription) in subscriptions {
            guard let last = subscription.unchecked else { continue }
            subscriptions[number]?.unchecked = nil
            checking += 1
            connection.atDesk { _, _ throws(Failure) in
            } then: { (_: Result<Void, Failure>) in
                self.checking -= 1
                if self.subscriptions[number] != nil { self.sendGap(last, number) }
                self.sendUncheckedGaps()
            }
        }
    }

    private func send(_ event: EventFeed.Event, _ number: UInt64, _ path: [UInt8]?, _ newPath: [UInt8]?) {
        guard subscriptions[number] != nil, !connection.hasGap(for: number) else { return }
        guard event.kind != .gap else { return sendGap(event, number) }
        let encoded = { [service] in
            try service.feed.value.encoder.encode(event, to: number, path: path, newPath: newPath)
        }
        connection.push(encoded: encoded, about: number, orGap: Self.gap(event, number))
    }

    private func sendGap(_ event: EventFeed.Event, _ number: UInt64) {
        guard !connection.hasGap(for: number) else { return }
        let gap = Self.gap(event, number)
        connection.push(encoded: { try gap.encoded() }, about: number, orGap: gap)
    }

    private static func gap(_ event: EventFeed.Event, _ number: UInt64) -> ServerMessage {
        .event(EventForm(subscription: number, sequence: event.sequence, kind: .gap))
    }
}
