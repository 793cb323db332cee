// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import CoordinationEngine
import LinuxSystem
import NIOCore

/// The open connections, and the limits of their number. Used only on the event loop.
final class ConnectionRegistry {
    private let services: SharedServices
    private var connections: [ClientConnection] = []
    private var refusals = LogRateLimiter(lines: 1)

    init(of services: SharedServices) { self.services = services }

    /// Decides whether a connection is served. Returns the reason for a refusal; nil if the connection is served.
    ///
    /// A connection that is served counts as open until `leave` is called.
    func admit(_ connection: ClientConnection) -> ProtocolFailure? {
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

    /// Closes all connections. The result succeeds when all of them have ended.
    func closeAll(on loop: any EventLoop) -> EventLoopFuture<Void> {
        let ends = connections.map(\.channel.closeFuture)
        for connection in connections { connection.closeSilently() }
        return EventLoopFuture.andAllComplete(ends, on: loop)
    }

    /// The most connections of all guests together. Each connection needs two descriptors, so guests take at most a quarter of
    /// the process's descriptors.
    private static var mostOfGuests: Int { max(DescriptorLimit.current / 8, 1) }

    private func isGuest(_ peer: Peer) -> Bool { peer.user != 0 && peer.user != services.mount.user }

    private func refusal(of peer: Peer) -> ProtocolFailure? {
        guard peer.user == 0 || peer.user == services.mount.user || services.mount.isShared else {
            return .denied(
                "this mount belongs to user \(services.mount.user); its socket serves only that user and root"
            )
        }
        let own = connections.filter { $0.peer.user == peer.user }
        if isGuest(peer), own.count < ProtocolLimits.connectionsPerUser {
            let guests = connections.count { isGuest($0.peer) }
            guard guests < Self.mostOfGuests else {
                return .tooMany("the guests of this mount have \(guests) connections, as many as it serves")
            }
        }
        guard own.count >= ProtocolLimits.connectionsPerUser else { return nil }
        // The user has reached the limit of its connections. If the client of one connection has sent nothing yet, that
        // connection is closed to make room. Otherwise the new connection is refused.
        guard let silent = own.first(where: { !$0.isInitialized }) else {
            return .tooMany(
                "you have \(ProtocolLimits.connectionsPerUser) connections; close a connection first")
        }
        silent.close(because: "it said nothing, and another connection of its user needs its place")
        leave(silent)
        return nil
    }
}
