// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import CoordinationEngine
import NIOCore
import NIOPosix

/// Receives the events of the mount from the engine, numbers them, and passes them to the subscriptions. Used only on the event
/// loop.
///
/// The feed remembers the last events for clients that subscribe again. It registers a presenter of the root at the first
/// subscription, and removes the presenter some time after the end of the last subscription. A mount without subscriptions
/// therefore does no work for events.
final class EventFeed {
    struct FeedEvent {
        let sequence: UInt64
        let kind: EventKind
        let path: [UInt8]?
        let newPath: [UInt8]?
        /// The directories that contained the names when the event happened. Now other directories can have the same paths.
        var directory: ItemID?
        var newDirectory: ItemID?
        let cause: CauseForm?
        var moment = Engine.now
    }

    /// The position in the events at which a new subscription begins.
    struct FeedStart {
        let epoch: String
        let sequence: UInt64
        let hasGap: Bool
        /// The remembered events after the position that the client asked for.
        let missed: [FeedEvent]
    }

    private enum FeedState {
        case off
        case starting
        case on(PresenterID)
    }

    private let engine: Engine
    private let documents: any DocumentSource
    /// How long events are remembered after the last subscription has ended.
    private let retention: TimeAmount
    private let workQueue: FairWorkQueue
    private let loop: any EventLoop
    private let loopGate: EventLoopGate
    private var state = FeedState.off
    private var mailbox: Mailbox?
    private var epoch = EventFeed.makeEpoch()
    private var last: UInt64 = 0
    private var recent: CircularBuffer<FeedEvent> = []
    private var subscribers: [ObjectIdentifier: (FeedEvent) -> Void] = [:]
    private var waiting: [(Result<Void, ProtocolFailure>) -> Void] = []
    var encoder = EventEncoder()
    /// How many events each guest was sent in the current period, over all its connections.
    private var quotas: [UInt32: FeedQuota] = [:]
    private var end: Scheduled<Void>?
    private var isClosed = false

    init(
        engine: Engine, documents: any DocumentSource, retention: TimeAmount, workQueue: FairWorkQueue,
        loop: any EventLoop
    ) {
        self.engine = engine
        self.documents = documents
        self.retention = retention
        self.workQueue = workQueue
        self.loop = loop
        loopGate = EventLoopGate(to: loop)
    }

    private static func makeEpoch() -> String {
        String(UInt64.random(in: .min ... .max), radix: 16)
    }

    /// Passes all later events to a connection. `then` is called when the feed is registered, with the position of the
    /// connection's first event.
    func join(
        _ subscriber: AnyObject, after position: EventPosition?, onEvent: @escaping (FeedEvent) -> Void,
        then: @escaping (Result<FeedStart, ProtocolFailure>) -> Void
    ) {
        end?.cancel()
        end = nil
        start { [self] result in
            then(
                result.map {
                    subscribers[ObjectIdentifier(subscriber)] = onEvent
                    return beginning(after: position)
                })
        }
    }

    func leave(_ subscriber: AnyObject) {
        subscribers[ObjectIdentifier(subscriber)] = nil
        guard subscribers.isEmpty, case .on = state, end == nil else { return }
        end = loop.assumeIsolated().scheduleTask(in: retention) { self.stop() }
    }

    /// Stops the feed for ever, when the server ends.
    func close() {
        isClosed = true
        loopGate.close()
        end?.cancel()
        subscribers = [:]
        for share in quotas.values { share.end.cancel() }
        quotas = [:]
        stop()
    }

    private func beginning(after position: EventPosition?) -> FeedStart {
        guard let position else {
            return FeedStart(epoch: epoch, sequence: last, hasGap: false, missed: [])
        }
        let oldest = recent.first?.sequence ?? last + 1
        guard position.epoch == epoch, position.sequence <= last, position.sequence + 1 >= oldest else {
            return FeedStart(epoch: epoch, sequence: last, hasGap: true, missed: [])
        }
        let missed = recent.filter { $0.sequence > position.sequence }
        return FeedStart(
            epoch: epoch, sequence: position.sequence, hasGap: false, missed: Array(missed))
    }

    private func start(_ then: @escaping (Result<Void, ProtocolFailure>) -> Void) {
        if case .on = state { return then(.success(())) }
        waiting.append(then)
        guard case .off = state else { return }
        state = .starting
        let feed = NIOLoopBound(self, eventLoop: loop)
        let mailbox = Mailbox(pathResolver: documents) { [loopGate] in loopGate.run { feed.value.collect() } }
        self.mailbox = mailbox
        workQueue.run(in: workQueue.serverLane, on: loop) { [engine, documents] in
            let root = try documents.find(PathForm([]))
            defer { documents.didRegisterPresenter(root, by: nil) }
            return engine.present(
                root, by: .feed, implementing: [.subitemDidAppear, .subitemDidChange, .subitemDidMove],
                in: mailbox)
        }
        .assumeIsolated().whenComplete { result in self.started(result.mapError(ProtocolFailure.init)) }
    }

    private func started(_ result: Result<PresenterID, ProtocolFailure>) {
        switch result {
        case .success(let presenter): state = .on(presenter)
        case .failure: state = .off
        }
        let waiting = self.waiting
        self.waiting = []
        for then in waiting { then(result.map { _ in }) }
        if isClosed { stop() }
    }

    private func stop() {
        guard case .on(let presenter) = state else { return }
        state = .off
        mailbox = nil
        recent = []
        // The events get no numbers until the next start of the feed. A new epoch makes the present numbers invalid.
        epoch = Self.makeEpoch()
        workQueue.submit(in: workQueue.serverLane) { [engine] in engine.remove(presenter) }
    }

    private func collect() {
        for message in mailbox?.take() ?? [] { receive(message) }
        guard let mailbox, mailbox.isPaused else { return }
        // The mailbox was full, so some events are missing. After `resume`, the next message of the mailbox becomes an event of
        // the kind `gap`.
        workQueue.submit(in: workQueue.serverLane) { [engine] in engine.resume(mailbox) }
    }

    private func receive(_ message: PresenterMessage) {
        guard case .notice(let notice, let subitem) = message.content else { return }
        last += 1
        let event = event(notice, of: subitem, message.paths, message)
        if recent.count >= ProtocolLimits.events { recent.removeFirst() }
        recent.append(event)
        for receive in subscribers.values { receive(event) }
    }

    private func event(
        _ notice: PresenterNotice, of subitem: Notice.Subitem?, _ paths: PresenterMessage.Paths?,
        _ message: PresenterMessage
    ) -> FeedEvent {
        let gap = FeedEvent(
            sequence: last, kind: .gap, path: nil, newPath: nil, cause: nil, moment: message.moment)
        guard let subitem, let paths else { return gap }
        let cause = message.cause
        let (now, before) = (paths.now, paths.before)
        let kind: EventKind? =
            switch notice {
            case .subitemDidAppear where now != nil: .appeared
            case .subitemDidChange where now != nil:
                cause.access == .write(.forDeleting) ? .deleted : .changed
            case .subitemDidMove where now != nil && before != nil: .moved
            default: nil
            }
        // The name of the changed item is unknown. Clients are sent an event of the kind `gap`, and must search for the change
        // themselves.
        guard let kind else { return gap }
        let isMove = kind == .moved
        return FeedEvent(
            sequence: last, kind: kind, path: isMove ? before : now, newPath: isMove ? now : nil,
            directory: (isMove ? subitem.former : subitem.place)?.directory,
            newDirectory: isMove ? subitem.place.directory : nil, cause: CauseForm(cause),
            moment: message.moment)
    }
}

// The quotas of guests. Each event for a guest takes time of the daemon, which other users need as well.
extension EventFeed {
    private struct FeedQuota {
        var told = 0
        let end: Scheduled<Void>
        /// Called when the quota is renewed, for each subscription that missed an event because the quota was used up.
        var waiting: [() -> Void] = []
    }

    /// Adds `count` events to the number that a guest was sent in this period.
    ///
    /// Returns false if the guest's quota is used up. When the quota is renewed, the caller sends an event of the kind `gap`.
    func chargeQuota(of user: UInt32, _ count: Int) -> Bool {
        if quotas[user] == nil {
            let period = TimeAmount.seconds(ProtocolLimits.eventsOfGuestSeconds)
            quotas[user] = FeedQuota(end: loop.assumeIsolated().scheduleTask(in: period) { self.renew(user) })
        }
        quotas[user]?.told += count
        return (quotas[user]?.told ?? 0) <= ProtocolLimits.eventsOfGuest
    }

    /// Calls `body` when the quota of a guest is renewed.
    func whenRenewed(_ user: UInt32, _ body: @escaping () -> Void) { quotas[user]?.waiting.append(body) }

    private func renew(_ user: UInt32) {
        for body in quotas.removeValue(forKey: user)?.waiting ?? [] { body() }
    }
}

extension Party {
    /// The party of the event feed, which belongs to no process. In the output of `truce ps` its name is `subscribers`.
    fileprivate static var feed: Party {
        var party = Party(process: nil, ancestors: [])
        party.program = Array("subscribers".utf8)
        return party
    }
}
