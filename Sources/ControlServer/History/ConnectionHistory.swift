// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import NIOCore

/// The requests `history/watch` of one connection, which wait for an event. Used only on the event loop.
///
/// A watch is answered with the first events, or with none after a time. The client then sends the next watch. So a slow client
/// gets each event once, and the server stores no events for it.
final class ConnectionHistory {
    private struct Watch {
        let path: [UInt8]
        /// No event up to this number is for the client, or the client has it. Each look begins after it.
        var after: UInt64
        let end: Scheduled<Void>
        var isChecked = false
        /// Whether events came while the last check was running.
        var isDue = true
    }

    private unowned let connection: ClientConnection
    private let services: SharedServices
    private var watches: [MessageID: Watch] = [:]
    private var watcher: UInt64?

    init(of connection: ClientConnection, in services: SharedServices) {
        self.connection = connection
        self.services = services
    }

    /// Whether a request waits for an event.
    var hasWatches: Bool { !watches.isEmpty }

    func watch(_ parameters: HistoryWatchParameters, answering id: MessageID) {
        guard let history = services.history else { return connection.answer(id, .noHistory) }
        guard watches.count < ProtocolLimits.subscriptions, watches[id] == nil else {
            return connection.answer(
                id, .tooMany("a connection has at most \(ProtocolLimits.subscriptions) watches"))
        }
        guard let after = parameters.after else {
            return connection.answer(
                id, .history(HistoryResult(events: [], isTruncated: false, last: history.last)))
        }
        let end = connection.loop.assumeIsolated().scheduleTask(in: .seconds(ProtocolLimits.watchSeconds)) {
            self.finish(id, .success([]))
        }
        watches[id] = Watch(path: parameters.path.bytes ?? [], after: after, end: end)
        if watcher == nil {
            let bound = NIOLoopBound(self, eventLoop: connection.loop)
            watcher = history.watch { [gate = connection.loopGate] in gate.run { bound.value.checkAll() } }
        }
        check(id)
    }

    /// Ends a watch that a client does not want any more. Returns false if there is no watch with this id.
    func cancel(_ id: MessageID) -> Bool {
        guard watches[id] != nil else { return false }
        finish(id, .failure(.cancelled))
        return true
    }

    func close() {
        for watch in watches.values { watch.end.cancel() }
        watches = [:]
        stop()
    }

    private func checkAll() {
        for id in watches.keys {
            watches[id]?.isDue = true
            check(id)
        }
    }

    /// Looks for events on the read queue, if events have come since the last look.
    private func check(_ id: MessageID) {
        guard let watch = watches[id], watch.isDue, !watch.isChecked, let history = services.history else {
            return
        }
        watches[id]?.isDue = false
        watches[id]?.isChecked = true
        let (path, number, last) = (watch.path, watch.after, history.last)
        let lane = services.readQueue.lane(
            of: connection.peer.user, isGuest: services.guest(connection.peer) != nil)
        services.readQueue.run(in: lane, on: connection.loop) { [peer = connection.peer] in
            do throws(VersionAccessFailure) {
                return try history.events(after: number, under: path, for: peer)
            } catch {
                throw error.failure
            }
        }
        .assumeIsolated().whenComplete { result in
            self.watches[id]?.isChecked = false
            switch result {
            case .success(let events) where events.isEmpty:
                // On a busy mount, a watch of a quiet document would otherwise read more events at each look.
                self.watches[id]?.after = max(number, last)
                self.check(id)
            case .success(let events): self.finish(id, .success(events))
            case .failure(let error): self.finish(id, .failure(ProtocolFailure(error)))
            }
        }
    }

    private func finish(_ id: MessageID, _ result: Result<[HistoryEventForm], ProtocolFailure>) {
        guard let watch = watches.removeValue(forKey: id) else { return }
        watch.end.cancel()
        if watches.isEmpty { stop() }
        connection.reply(
            id,
            result.flatMap { events in
                do {
                    // The next watch continues after the last event of this reply, so events that do not fit are not lost.
                    var budget = ReplyBudget()
                    let fitting = try budget.fill(with: events.prefix(ProtocolLimits.listEntries))
                    return .success(
                        .history(
                            HistoryResult(
                                events: fitting, isTruncated: fitting.count < events.count,
                                last: fitting.last?.number ?? watch.after)))
                } catch {
                    return .failure(ProtocolFailure(error))
                }
            })
    }

    private func stop() {
        if let watcher = watcher.take() { services.history?.unwatch(watcher) }
    }
}

extension SharedServices {
    /// Answers `history/list`. Can block.
    func listHistory(_ parameters: HistoryListParameters, for peer: Peer) throws -> Response {
        guard let history else { throw ProtocolFailure.noHistory }
        let limit = parameters.limit ?? ProtocolLimits.listEntries
        let last = history.last
        let all: [HistoryEventForm]
        do throws(VersionAccessFailure) { all = try history.events(parameters, for: peer) } catch {
            throw error.failure
        }
        // The newest events are the last ones. So the oldest are left out if there is no room.
        var budget = ReplyBudget()
        let events = try budget.fill(with: all.suffix(limit).reversed())
        return .history(
            HistoryResult(
                events: events.reversed(), isTruncated: events.count < all.count,
                // Events that were appended since are in the list, so a watch need not return them again.
                last: max(last, all.last?.number ?? 0)))
    }
}

extension ProtocolFailure {
    static var noHistory: ProtocolFailure { .notFound("this mount records no history") }
}
