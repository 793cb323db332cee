// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
package import CoordinationEngine
package import LinuxSystem
import NIOCore
import NIOPosix
import Synchronization

/// The mount a socket belongs to.
package struct ControlledMount: Hashable, Sendable {
    package var mountpoint: String
    package var source: String
    /// Besides root, the only user who is served.
    package var user: UInt32
    /// Of the daemon.
    package var version: String

    package init(mountpoint: String, source: String, user: UInt32, version: String) {
        self.mountpoint = mountpoint
        self.source = source
        self.user = user
        self.version = version
    }

    var form: MountForm { MountForm(mountpoint: mountpoint, source: source, user: user) }
}

/// What every connection shares.
struct Service: Sendable {
    let mount: ControlledMount
    let status: any StatusSource
    let kept: (any KeptContents)?
    /// The store reads files, which may block; one thread does it for all.
    let workers: NIOThreadPool
    let log: @Sendable (String) -> Void
}

/// Accepts clients and hands each a ``ClientConnection``; an idle one costs a descriptor and no time.
package final class ControlServer: Sendable {
    private let service: Service
    private let group: MultiThreadedEventLoopGroup
    private let listener: any Channel

    package init(
        on socket: consuming OwnedDescriptor, for mount: ControlledMount, status: any StatusSource,
        kept: (any KeptContents)?, log: @escaping @Sendable (String) -> Void
    ) throws {
        let workers = NIOThreadPool(numberOfThreads: 1)
        workers.start()
        let service = Service(mount: mount, status: status, kept: kept, workers: workers, log: log)
        let connections = ConnectionCount()
        group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        listener = try ServerBootstrap(group: group)
            .childChannelOption(.allowRemoteHalfClosure, value: true)
            .childChannelOption(
                .writeBufferWaterMark,
                value: .init(low: ProtocolLimits.outboxBytes / 4, high: ProtocolLimits.outboxBytes)
            )
            .childChannelInitializer { Self.admit($0, to: service, counting: connections) }
            .withBoundSocket(socket.release())
            .wait()
        self.service = service
    }

    /// Closes every connection and ends the threads; must not be called on one of them.
    package func stop() throws {
        try service.workers.syncShutdownGracefully()
        try group.syncShutdownGracefully()
    }

    private static func admit(
        _ channel: any Channel, to service: Service, counting connections: ConnectionCount
    ) -> EventLoopFuture<Void> {
        channel.eventLoop.makeCompletedFuture {
            let pipeline = channel.pipeline.syncOperations
            guard
                let peer = try pipeline.withUnsafeTransportIfAvailable(
                    of: NIOBSDSocket.Handle.self, { try Peer(of: $0) })
            else { throw ChannelError.operationUnsupported }
            let refusal = refusal(of: peer, by: service, counting: connections)
            try pipeline.addHandler(ClientConnection(of: peer, to: service, refusal: refusal))
            if refusal == nil { channel.closeFuture.whenComplete { _ in connections.leave(peer.user) } }
        }
    }

    private static func refusal(
        of peer: Peer, by service: Service, counting connections: ConnectionCount
    ) -> Failure? {
        guard peer.user == 0 || peer.user == service.mount.user else {
            return .denied(
                "this mount belongs to user \(service.mount.user); its socket serves only that user and root")
        }
        guard connections.enter(peer.user) else {
            return .tooMany("you have \(ProtocolLimits.connectionsPerUser) connections; close one first")
        }
        return nil
    }
}

/// How many connections each user has.
final class ConnectionCount: Sendable {
    private let counts = Mutex<[UInt32: Int]>([:])

    func enter(_ user: UInt32) -> Bool {
        counts.withLock { counts in
            guard counts[user, default: 0] < ProtocolLimits.connectionsPerUser else { return false }
            counts[user, default: 0] += 1
            return true
        }
    }

    func leave(_ user: UInt32) {
        counts.withLock { counts in
            let left = counts[user, default: 1] - 1
            counts[user] = left > 0 ? left : nil
        }
    }
}
