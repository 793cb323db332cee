// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
package import CoordinationEngine
package import LinuxSystem
import NIOCore
import NIOPosix

/// The mount that a control socket belongs to.
package struct ControlledMount: Hashable, Sendable {
    package var mountpoint: String
    package var source: String
    /// The owner of the mount. Only the owner and root may ask about the whole mount.
    package var user: UInt32
    /// The version of the daemon.
    package var version: String
    /// Whether users other than the owner and root may use the mount. Such a user can access only files that the user's rights
    /// allow.
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

/// Accepts the connections of clients, and gives each connection a ``ClientConnection``.
///
/// A client that sends nothing takes a descriptor, but no processor time.
package final class ControlServer: Sendable {
    private let services: SharedServices
    private let group: MultiThreadedEventLoopGroup
    private let listener: any Channel
    /// A second descriptor of the listening socket, with which `stop()` ends the listening. Closing all descriptors would not
    /// be reliable, because other processes can have inherited copies.
    private let listenerDescriptor: OwnedDescriptor
    private let connectionRegistry: NIOLoopBoundBox<ConnectionRegistry>
    /// Accepts connections of all users; nil if the mount is not shared.
    private let sharedAcceptor: SharedSocketAcceptor?
    /// The longest time that `stop()` waits for requests that are blocked by a file system.
    private static let stopTimeout = TimeAmount.seconds(5)

    /// Listens on the socket of the owner and root, and also on the socket for all users if `shared` is given.
    ///
    /// `eventMemory` is how long events are remembered after the last subscription has ended.
    package init(
        on socket: consuming OwnedDescriptor, sharedBy shared: consuming OwnedDescriptor? = nil,
        at rate: ConnectionRate = ConnectionRate(), for mount: ControlledMount, status: any StatusSource,
        preservedVersions: (any PreservedVersions)?, history: (any DocumentHistory)? = nil, engine: Engine,
        documents: any DocumentSource, settings: (any SettingSource)? = nil,
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
            mount: mount, status: status, preservedVersions: preservedVersions, history: history,
            engine: engine, documents: documents, settings: settings, source: source,
            feed: feed, log: log, watch: watch, rightsCache: RightsCache(at: source),
            readThrottle: try loop.submit { NIOLoopBound(ReadThrottle(), eventLoop: loop) }.wait(),
            workQueue: workQueue,
            readQueue: readQueue)
        let versionNotices = VersionNotices(engine: engine, documents: documents, workQueue: workQueue)
        preservedVersions?.observe { versionNotices.take($0) }
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

    /// Serves a connection that ``SharedSocketAcceptor`` has accepted.
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

    /// Refuses new connections, closes all connections, and releases their claims and presenters.
    ///
    /// Must not be called on the event loop or on a thread of a work queue. The threads of NIO continue until ``endThreads()``.
    /// NIO ends them by libdispatch, which can abort the process if `/proc` shows another pid namespace.
    package func stop() throws {
        let loop = listener.eventLoop
        // The shared acceptor has possibly accepted a connection just before this call. That connection is still handed to the
        // loop, and is closed with the others.
        sharedAcceptor?.close()
        listener.close(promise: nil)
        try loop.flatSubmit { [connectionRegistry, feed = services.feed] in
            // The socket refuses connections from now on. Its name stays in the directory until the last file of the mount is
            // closed, which can take long.
            UnixSocket.refuseAll(on: self.listenerDescriptor)
            feed.value.close()
            return connectionRegistry.value.closeAll(on: loop)
        }.wait()
        // The work queues finish the release of the connections' claims and presenters. If the registration of the event feed
        // is still running, the feed is removed after it.
        let areDone = try [services.workQueue, services.readQueue].map {
            try $0.finish(on: loop, within: Self.stopTimeout)
        }
        services.watch.stop()
        // The jobs of the work queues have passed their last results to the loop. This empty job ends after the loop has
        // handled those results.
        try loop.submit {}.wait()
        // If the registration of the event feed ended only now, the removal of the feed is a further job of the work queue.
        // This call waits for that job.
        if try areDone == [true, true] && services.workQueue.finish(on: loop, within: Self.stopTimeout) {
            return
        }
        services.log("the control socket is closed while a client's request still waits for a file system")
    }

    /// Ends the threads of the server. Only a process that continues after ``stop()`` calls this.
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

/// Stops accepting connections for a time when the process has no free descriptors. Writes a log line about this at most once a
/// minute.
///
/// NIO's own `AcceptBackoffHandler` is not enough: it delays reads, but NIO continues to accept after an error without a read.
private final class AcceptErrorHandler: ChannelInboundHandler {
    typealias InboundIn = any Channel

    private static let pause = TimeAmount.milliseconds(200)
    private static let interval = TimeAmount.minutes(1)
    private let log: @Sendable (String) -> Void
    private var quietUntil: NIODeadline?

    init(log: @escaping @Sendable (String) -> Void) { self.log = log }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        let listener = context.channel
        // If this fails, the listener is already closed, so accepting has stopped.
        listener.setOption(.autoRead, value: false).whenSuccess {
            listener.eventLoop.scheduleTask(in: Self.pause) { listener.setOption(.autoRead, value: true) }
        }
        if let quietUntil, NIODeadline.now() < quietUntil { return }
        quietUntil = .now() + Self.interval
        log("the control socket cannot accept connections: \(error)")
    }
}
