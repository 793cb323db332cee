// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import CoordinationEngine
import LinuxSystem
import NIOCore

/// Who is connected, and who may be. On the event loop only.
final class ConnectionRegistry {
    private let services: SharedServices
    private var connections: [ClientConnection] = []
    private var refusals = LogRateLimiter(lines: 1)

    init(of services: SharedServices) { self.services = services }

    /// Why a connection is not served; nil if it is, and then it is counted until it leaves.
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

    /// Closes everybody; the result is there when everybody is gone.
    func closeAll(on loop: any EventLoop) -> EventLoopFuture<Void> {
        let ends = connections.map(\.channel.closeFuture)
        for connection in connections { connection.closeSilently() }
        return EventLoopFuture.andAllComplete(ends, on: loop)
    }

    /// All guests' together have a quarter of the descriptors at most, two for each: the rest is for files, and for those whose
    /// mount it is.
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
        // Whoever connects and says nothing must not lock out those who have something to say.
        guard let silent = own.first(where: { !$0.isInitialized }) else {
            return .tooMany("you have \(ProtocolLimits.connectionsPerUser) connections; close one first")
        }
        silent.close(because: "it said nothing, and another connection of its user needs its place")
        leave(silent)
        return nil
    }
}
