// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import CoordinationEngine
import NIOCore

/// Who is connected, and who may be. On the event loop only.
final class Roster {
    private let service: Service
    private var connections: [ClientConnection] = []
    private var refusals = RefusalLog()

    init(of service: Service) { self.service = service }

    /// Why a connection is not served; nil if it is, and then it is counted until it leaves.
    func admit(_ connection: ClientConnection) -> Failure? {
        let peer = connection.peer
        if let refusal = refusal(of: peer) {
            if let more = refusals.note(peer.user, at: Engine.now) {
                connection.note("refused: \(refusal.message)\(more)")
            }
            return refusal
        }
        connections.append(connection)
        return nil
    }

    func leave(_ connection: ClientConnection) { connections.removeAll { $0 === connection } }

    /// Closes everybody; the result is there when everybody is gone.
    func closeAll(on loop: any EventLoop) -> EventLoopFuture<Void> {
        let ends = connections.map(\.channel.closeFuture)
        for connection in connections { connection.shut() }
        return EventLoopFuture.andAllComplete(ends, on: loop)
    }

    private func refusal(of peer: Peer) -> Failure? {
        guard peer.user == 0 || peer.user == service.mount.user || service.mount.isShared else {
            return .denied(
                "this mount belongs to user \(service.mount.user); its socket serves only that user and root")
        }
        let own = connections.filter { $0.peer.user == peer.user }
        guard own.count >= ProtocolLimits.connectionsPerUser else { return nil }
        // Whoever connects and says nothing must not lock out those who have something to say.
        guard let silent = own.first(where: { !$0.isInitialized }) else {
            return .tooMany("you have \(ProtocolLimits.connectionsPerUser) connections; close one first")
        }
        silent.close(because: "it said nothing, and another connection of its user needs its place")
        leave(silent)
        return nil
    }
}

/// Keeps those who are not served from filling the log.
struct RefusalLog {
    private static let interval = Span.seconds(60)
    /// More users than this share a line.
    private static let users = 64

    private var noted: [UInt32: (since: Instant, more: Int)] = [:]

    /// What to add to the line about a refusal; nil if there is to be none.
    mutating func note(_ user: UInt32, at now: Instant) -> String? {
        if let last = noted[user], now.since(last.since) < Self.interval {
            noted[user] = (last.since, last.more + 1)
            return nil
        }
        let more = noted[user]?.more ?? 0
        if noted[user] == nil, noted.count >= Self.users {
            noted = noted.filter { now.since($0.value.since) < Self.interval }
            guard noted.count < Self.users else { return nil }
        }
        noted[user] = (now, 0)
        return more > 0 ? " (and \(more) times before, unnoted)" : ""
    }
}
