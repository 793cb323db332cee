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
            for event in beginning.missed { tell(event, number) }
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

    private func hear(_ event: EventFeed.Event) {
        for number in subscriptions.keys { tell(event, number) }
    }

    private func tell(_ event: EventFeed.Event, _ number: UInt64) {
        guard let subscription = subscriptions[number] else { return }
        let path = event.path.flatMap { subscription.covers($0) ? $0 : nil }
        let newPath = event.newPath.flatMap { subscription.covers($0) ? $0 : nil }
        guard event.kind == .gap || path != nil || newPath != nil else { return }
        guard let guest = service.guest(connection.peer) else {
            return send(event, number, path, newPath)
        }
        check(event, number, (path, newPath), for: guest)
    }

    /// Each time, since rights change; and in order, since the desk does one thing after the other.
    private func check(
        _ event: EventFeed.Event, _ number: UInt64, _ paths: (path: [UInt8]?, newPath: [UInt8]?),
        for guest: Guest
    ) {
        if checking >= ProtocolLimits.checksOfGuest || subscriptions[number]?.unchecked != nil {
            subscriptions[number]?.unchecked = event
            return
        }
        checking += 1
        connection.atDesk { [documents = service.documents] _, _ throws(Failure) in
            let hearing = { (path: [UInt8]?, directory: ItemID?) in
                path.map { guest.hearing(of: $0, in: directory, by: documents) } ?? .denied
            }
            return (hearing(paths.path, event.directory), hearing(paths.newPath, event.newDirectory))
        } then: { result in
            self.checking -= 1
            defer { self.sendUncheckedGaps() }
            guard case .success(let (old, new)) = result else { return }
            self.tell(event, number, paths, old, new)
        }
    }

    private func tell(
        _ event: EventFeed.Event, _ number: UInt64, _ paths: (path: [UInt8]?, newPath: [UInt8]?),
        _ hearing: Guest.Hearing, _ newHearing: Guest.Hearing
    ) {
        if event.kind == .gap || hearing == .unknown || newHearing == .unknown {
            return sendGap(event, number)
        }
        let path = hearing == .allowed ? paths.path : nil
        let newPath = newHearing == .allowed ? paths.newPath : nil
        if path != nil || newPath != nil { send(event, number, path, newPath) }
    }

    /// By way of the desk, where everything before them is.
    private func sendUncheckedGaps() {
        guard checking < ProtocolLimits.checksOfGuest else { return }
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
        let form = EventForm(
            subscription: number, sequence: event.sequence, kind: event.kind, path: path, newPath: newPath,
            cause: event.cause)
        connection.push(.event(form), about: number, orGap: Self.gap(event, number))
    }

    private func sendGap(_ event: EventFeed.Event, _ number: UInt64) {
        guard !connection.hasGap(for: number) else { return }
        let gap = Self.gap(event, number)
        connection.push(gap, about: number, orGap: gap)
    }

    private static func gap(_ event: EventFeed.Event, _ number: UInt64) -> ServerMessage {
        .event(EventForm(subscription: number, sequence: event.sequence, kind: .gap))
    }
}
