// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
package import CoordinationEngine
package import LinuxSystem
import NIOCore
import NIOPosix

/// The mount a socket belongs to.
package struct ControlledMount: Hashable, Sendable {
    package var mountpoint: String
    package var source: String
    /// Whose mount it is; that user and root may ask for everything.
    package var user: UInt32
    /// Of the daemon.
    package var version: String
    /// Whether other users may use the mount; then they are served as far as their rights to files go.
    package var isShared: Bool

    package init(mountpoint: String, source: String, user: UInt32, version: String, isShared: Bool = false) {
        self.mountpoint = mountpoint
        self.source = source
        self.user = user
        self.version = version
        self.isShared = isShared
    }

    var form: MountForm { MountForm(mountpoint: mountpoint, source: source, user: user) }
}

/// Accepts clients and hands each a ``ClientConnection``; an idle one costs a descriptor and no time.
package final class ControlServer: Sendable {
    private let services: SharedServices
    private let group: MultiThreadedEventLoopGroup
    private let listener: any Channel
    /// Of the same socket, which others have descriptors of: closing one does not keep it from listening.
    private let listenerDescriptor: OwnedDescriptor
    private let connectionRegistry: NIOLoopBoundBox<ConnectionRegistry>
    /// Where everybody else comes in, if anybody may.
    private let sharedAcceptor: SharedSocketAcceptor?
    /// How long a file system may keep the end.
    private static let stopTimeout = TimeAmount.seconds(5)

    /// `shared` is the socket that everybody may connect to, where the mount has one besides its owner's. `eventMemory` is how long
    /// events are remembered when nobody is subscribed.
    package init(
        on socket: consuming OwnedDescriptor, sharedBy shared: consuming OwnedDescriptor? = nil,
        at rate: ConnectionRate = ConnectionRate(), for mount: ControlledMount, status: any StatusSource,
        preservedVersions: (any PreservedVersions)?, engine: Engine, documents: any DocumentSource,
        below source: any SourceInspector,
        eventMemory: Duration = .seconds(ProtocolLimits.eventSeconds),
        log: @escaping @Sendable (String) -> Void
    ) throws {
        listenerDescriptor = try OwnedDescriptor.duplicating(socket.rawValue)
        let watch = try ProcessWatch()
        let (readQueue, workQueue) = (FairWorkQueue(), FairWorkQueue())
        group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let loop = group.next()
        let feed = try loop.submit {
            NIOLoopBound(
                EventFeed(
                    engine: engine, documents: documents, retention: TimeAmount(eventMemory),
                    workQueue: workQueue,
                    loop: loop),
                eventLoop: loop)
        }.wait()
        let services = SharedServices(
            mount: mount, status: status, preservedVersions: preservedVersions, engine: engine,
            documents: documents, source: source,
            feed: feed, log: log, watch: watch, rightsCache: RightsCache(at: source),
            readThrottle: try loop.submit { NIOLoopBound(ReadThrottle(), eventLoop: loop) }.wait(),
            workQueue: workQueue,
            readQueue: readQueue)
        let connectionRegistry = NIOLoopBoundBox.makeBoxSendingValue(
            ConnectionRegistry(of: services), eventLoop: group.next())
        listener = try ServerBootstrap(group: group)
            .serverChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(AcceptErrorHandler(log: log))
                }
            }
            .childChannelOption(.allowRemoteHalfClosure, value: true)
            .childChannelInitializer { Self.admit($0, to: services, by: connectionRegistry) }
            .withBoundSocket(socket.release())
            .wait()
        self.connectionRegistry = connectionRegistry
        self.services = services
        if let shared = consume shared {
            let sharedAcceptor = SharedSocketAcceptor(
                shared, isGuest: { $0 != 0 && $0 != mount.user }, log: log
            ) { Self.take($0, on: loop, to: services, by: connectionRegistry) }
            try sharedAcceptor.open(at: rate)
            self.sharedAcceptor = sharedAcceptor
        } else {
            sharedAcceptor = nil
        }
    }

    /// Serves a connection that was accepted elsewhere.
    private static func take(
        _ socket: CInt, on loop: any EventLoop, to services: SharedServices,
        by connectionRegistry: NIOLoopBoundBox<ConnectionRegistry>
    ) {
        ClientBootstrap(group: loop)
            .channelOption(.allowRemoteHalfClosure, value: true)
            .channelInitializer { admit($0, to: services, by: connectionRegistry) }
            .withConnectedSocket(socket)
            .whenFailure { services.log("a control connection cannot be served: \($0)") }
    }

    /// Refuses whoever connects now, closes every connection, and gives back what they had in the engine.
    ///
    /// Must not be called on one of its threads. NIO's stay: they would be ended by libdispatch, whose watch over its own
    /// threads ends the process where `/proc` does not show them, as that of another pid namespace; and files may be open.
    package func stop() throws {
        let loop = listener.eventLoop
        // A connection that has come in by then is on its way to the loop, and among those that are closed.
        sharedAcceptor?.close()
        listener.close(promise: nil)
        try loop.flatSubmit { [connectionRegistry, feed = services.feed] in
            // The socket's name may be there for long, until the last file is closed.
            UnixSocket.refuseAll(on: self.listenerDescriptor)
            feed.value.close()
            return connectionRegistry.value.closeAll(on: loop)
        }.wait()
        // What they had is given back on the desk; but for an event feed that is only now being registered.
        let areDone = try [services.workQueue, services.readQueue].map {
            try $0.finish(on: loop, within: Self.stopTimeout)
        }
        services.watch.stop()
        // The last results are on their way to the loop.
        try loop.submit {}.wait()
        // The feed may have begun only now.
        if try areDone == [true, true] && services.workQueue.finish(on: loop, within: Self.stopTimeout) {
            return
        }
        services.log("the control socket is closed while a client's request still waits for a file system")
    }

    /// For who goes on without it after ``stop()``.
    package func endThreads() throws {
        try services.workQueue.end()
        try services.readQueue.end()
        try group.syncShutdownGracefully()
    }

    private static func admit(
        _ channel: any Channel, to services: SharedServices,
        by connectionRegistry: NIOLoopBoundBox<ConnectionRegistry>
    ) -> EventLoopFuture<Void> {
        channel.eventLoop.makeCompletedFuture {
            let pipeline = channel.pipeline.syncOperations
            guard
                let peer = try pipeline.withUnsafeTransportIfAvailable(
                    of: NIOBSDSocket.Handle.self, { try Peer(of: $0) })
            else { throw ChannelError.operationUnsupported }
            let connection = ClientConnection(of: peer, on: channel, to: services)
            connection.refusal = connectionRegistry.value.admit(connection)
            try pipeline.addHandler(connection)
            channel.closeFuture.assumeIsolated().whenComplete { _ in
                connectionRegistry.value.leave(connection)
            }
        }
    }
}

/// Stops accepting for a moment when there are no descriptors left, and notes it seldom.
///
/// NIO's own `AcceptBackoffHandler` holds back reads, but after an error NIO tries again without one, at once and
/// for as long as somebody waits to be accepted.
private final class AcceptErrorHandler: ChannelInboundHandler {
    typealias InboundIn = any Channel

    private static let pause = TimeAmount.milliseconds(200)
    private static let interval = TimeAmount.minutes(1)
    private let log: @Sendable (String) -> Void
    private var quietUntil: NIODeadline?

    init(log: @escaping @Sendable (String) -> Void) { self.log = log }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        let listener = context.channel
        // Fails only if the listener is closed by now.
        listener.setOption(.autoRead, value: false).whenSuccess {
            listener.eventLoop.scheduleTask(in: Self.pause) { listener.setOption(.autoRead, value: true) }
        }
        if let quietUntil, NIODeadline.now() < quietUntil { return }
        quietUntil = .now() + Self.interval
        log("the control socket cannot accept connections: \(error)")
    }
}
