// SPDX-License-Identifier: Apache-2.0
import ControlClient
import ControlProtocol
import Foundation
import LinuxSystem
import NIOCore
import NIOPosix
import Synchronization

/// The connection of this process to the daemon of one mount. It is opened when it is needed, and opened again after it was
/// lost.
///
/// Replies and messages of the daemon are handled on NIO's thread, which must not block.
final class MountConnection: Sendable {
    typealias ReplyHandler = @Sendable (Result<[UInt8], FileCoordinationError>) -> Void

    private struct State {
        var channel: (any Channel)?
        /// The number of connections so far. The number of an access or presenter is valid only on the connection on which the
        /// daemon has sent it.
        var generation: UInt64 = 0
        /// The reason why the daemon closes the connection, if the daemon has sent a reason.
        var refusal: ProtocolFailure?
        var lastRequest: Int64 = 0
        var requests: [Int64: ReplyHandler] = [:]
        var registrations: [UInt64: Registration] = [:]
        var isReconnecting = false
        /// The number of failed attempts in a row to connect again and register the presenters.
        var failures = 0
    }

    private static let all = Mutex<[[UInt8]: MountConnection]>([:])
    /// The seconds before the first attempt to connect again. After each failed attempt the time doubles, up to
    /// `longestRetryInterval`.
    private static let firstRetryInterval = 0.25
    private static let longestRetryInterval = 4.0

    let mountpoint: [UInt8]
    private let state = Mutex(State())
    /// Held while a connection is being opened, which may take a moment. No other lock is held during that time.
    private let connecting = NSLock()

    private init(_ mountpoint: [UInt8]) { self.mountpoint = mountpoint }

    static func connection(to mountpoint: [UInt8]) -> MountConnection {
        all.withLock { connections in
            if let known = connections[mountpoint] { return known }
            let connection = MountConnection(mountpoint)
            connections[mountpoint] = connection
            return connection
        }
    }

    var printable: String { mountpoint.printable }

    /// The URL of an item in the mount. Other programs use the same URL.
    func url(_ pathInMount: [UInt8], isDirectory: Bool) -> URL {
        let path = mountpoint + (pathInMount.isEmpty ? [] : [UInt8(ascii: "/")]) + pathInMount
        return path.withPath {
            URL(fileURLWithFileSystemRepresentation: $0, isDirectory: isDirectory, relativeTo: nil)
        }
    }
}

// Sending messages.
extension MountConnection {
    /// Sends a request and returns its id. `onReply` is called once, on NIO's thread, or on the calling thread if there is no
    /// connection.
    @discardableResult
    func send(_ request: ClientRequest, onReply: @escaping ReplyHandler) -> Int64 {
        let (id, channel) = state.withLock { state in
            state.lastRequest += 1
            if state.channel != nil { state.requests[state.lastRequest] = onReply }
            return (state.lastRequest, state.channel)
        }
        guard let channel else {
            onReply(.failure(.disconnected(printable)))
            return id
        }
        write(RequestMessage(id: .number(id), request), to: channel)
        return id
    }

    /// The number of the present connection, or of the last connection if there is none now.
    var generation: UInt64 { state.withLock { $0.generation } }

    func isCurrent(_ generation: UInt64) -> Bool {
        state.withLock { $0.channel != nil && $0.generation == generation }
    }

    func tell(_ notification: ClientNotification) {
        guard let channel = state.withLock({ $0.channel }) else { return }
        write(NotificationMessage(notification), to: channel)
    }

    /// Answers a question of the daemon, if the question arrived on the present connection.
    func answer(_ id: MessageID, of generation: UInt64, _ error: (any Error)? = nil) {
        let channel = state.withLock { $0.generation == generation ? $0.channel : nil }
        guard let channel else { return }
        write(AnswerMessage(to: id, failure: error.map(ProtocolFailure.init(presenter:))), to: channel)
    }

    private func write(_ message: some Encodable, to channel: any Channel) {
        do {
            let bytes = Framing.lines.frame(try JSONCodec.encode(message))
            // Every thread hands its message to the event loop. If NIO's thread wrote its messages directly, they could
            // overtake an earlier request of another thread.
            channel.eventLoop.execute {
                channel.writeAndFlush(channel.allocator.buffer(bytes: bytes), promise: nil)
            }
        } catch {
            // This cannot happen: every message of this client can be encoded as JSON.
            preconditionFailure("a message could not be written as JSON: \(error)")
        }
    }

    /// Sends a request, and waits for the reply.
    ///
    /// Must not be called on NIO's thread.
    func call<Value: Decodable & Sendable>(_ request: ClientRequest) throws(FileCoordinationError) -> Value {
        try connect()
        let reply = BlockingPromise<Result<[UInt8], FileCoordinationError>>()
        send(request) { reply.fulfill($0) }
        return try Self.value(of: reply.wait())
    }

    /// Decodes the reply to a request. Throws the error that the reply contains, if there is one.
    static func value<Value: Decodable>(
        of reply: Result<[UInt8], FileCoordinationError>, waited: Duration = .zero
    ) throws(FileCoordinationError) -> Value {
        let bytes = try reply.get()
        do {
            return try ResponseMessage<Value>(decoding: bytes).outcome.get()
        } catch let failure as ProtocolFailure {
            throw FileCoordinationError(failure, waited: waited)
        } catch {
            throw FileCoordinationError(.failed, "the daemon's answer could not be understood: \(error)")
        }
    }
}

// Opening the connection.
extension MountConnection {
    /// Opens the connection to the daemon, if there is none.
    ///
    /// Must not be called on NIO's thread.
    func connect() throws(FileCoordinationError) {
        connecting.lock()
        defer { connecting.unlock() }
        guard state.withLock({ $0.channel }) == nil else { return }
        let socket: OwnedDescriptor
        do throws(ClientFailure) {
            let mount = try MountFinder.table().containing(mountpoint)
            guard let mount, mount.isTruce, mount.mountpoint == mountpoint else {
                throw ClientFailure(.notFound, "'\(printable)' is not mounted any more")
            }
            socket = try MountSocket(to: mount).release()
        } catch {
            throw FileCoordinationError(error)
        }
        do {
            try open(socket)
            // An access has opened the connection before the next attempt to register the presenters again. So they are
            // registered now.
            if hasWaitingPresenters { DispatchQueue.global().async { self.reconnect() } }
        } catch let error as FileCoordinationError {
            throw error
        } catch {
            throw FileCoordinationError(
                .disconnected, "no connection to the daemon of '\(printable)': \(error)")
        }
    }

    private func open(_ socket: consuming OwnedDescriptor) throws {
        let channel = try ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(MountConnectionHandler(self))
                }
            }
            .withConnectedSocket(socket.release()).wait()
        state.withLock { state in
            state.channel = channel
            state.generation += 1
            state.refusal = nil
        }
        // If the channel was closed before it was stored in the state, `closed` did not find it there. So it is called again.
        if !channel.isActive { closed(channel) }
        let reply = BlockingPromise<Result<[UInt8], FileCoordinationError>>()
        send(.initialize(InitializeParameters(client: ProcessInfo.processInfo.processName))) {
            reply.fulfill($0)
        }
        do {
            guard let answer = reply.wait(seconds: MountSocket.timeoutSeconds) else {
                throw FileCoordinationError(.disconnected, "the daemon of '\(printable)' does not answer")
            }
            let _: InitializeResult = try Self.value(of: answer)
        } catch {
            channel.close(promise: nil)
            throw error
        }
    }

    /// Handles the loss of the connection: all requests without a reply fail. If the connection had presenters, they are
    /// registered again later.
    fileprivate func closed(_ channel: any Channel) {
        let ended: (requests: [ReplyHandler], registrations: [Registration], refusal: ProtocolFailure?)? =
            state.withLock {
                state in
                guard state.channel === channel else { return nil }
                defer { (state.channel, state.requests, state.registrations) = (nil, [:], [:]) }
                return (Array(state.requests.values), Array(state.registrations.values), state.refusal)
            }
        guard let ended else { return }
        let error = ended.refusal.map { FileCoordinationError($0, waited: .zero) } ?? .disconnected(printable)
        for onReply in ended.requests { onReply(.failure(error)) }
        let left = ended.registrations
        for registration in left { registration.connectionLost() }
        if !left.isEmpty { reconnectLater() }
    }

    /// Schedules an attempt to connect to the next daemon of the mount.
    func reconnectLater() {
        let interval: Double? = state.withLock { state in
            guard !state.isReconnecting else { return nil }
            state.isReconnecting = true
            defer { state.failures += 1 }
            let longer = Self.firstRetryInterval * Double(1 << min(state.failures, 16))
            return min(longer, Self.longestRetryInterval)
        }
        guard let interval else { return }
        DispatchQueue.global().asyncAfter(deadline: .now() + interval) {
            self.state.withLock { $0.isReconnecting = false }
            self.reconnect()
        }
    }

    /// Whether presenters wait to be registered: those of this mount's lost connection, and those that were never registered.
    /// The item of the latter may be in this mount.
    private var hasWaitingPresenters: Bool {
        LocalPresenterRegistry.shared.hasLost(on: self) || LocalPresenterRegistry.shared.hasNew
    }

    private func reconnect() {
        guard hasWaitingPresenters else { return state.withLock { $0.failures = 0 } }
        do throws(FileCoordinationError) {
            try connect()
        } catch {
            // Presenters that were never registered wait until an access opens a connection to this mount.
            if LocalPresenterRegistry.shared.hasLost(on: self) { reconnectLater() }
            return
        }
        LocalPresenterRegistry.shared.registerAgain(on: self)
        // Some presenters may still not be registered: the daemon may have ended again, or their items may not exist.
        if LocalPresenterRegistry.shared.hasLost(on: self) { return reconnectLater() }
        state.withLock { $0.failures = 0 }
    }
}

// Presenters on this connection.
extension MountConnection {
    /// Registers a presenter at the daemon. Messages to the presenter are delivered as soon as the reply has arrived.
    func register(_ registration: Registration, _ parameters: RegisterParameters)
        throws(FileCoordinationError)
    {
        try connect()
        let reply = BlockingPromise<Result<Void, FileCoordinationError>>()
        send(.register(parameters)) { [self] answer in
            // NIO's thread calls this before it reads further messages. So no message to the presenter is handled before the
            // presenter is known.
            do throws(FileCoordinationError) {
                let result: RegisterResult = try Self.value(of: answer)
                state.withLock { $0.registrations[result.presenter] = registration }
                if !registration.registered(result, on: self) { remove(result.presenter) }
                reply.fulfill(.success(()))
            } catch {
                reply.fulfill(.failure(error))
            }
        }
        try reply.wait().get()
    }

    func remove(_ presenter: UInt64) {
        guard state.withLock({ $0.registrations.removeValue(forKey: presenter) }) != nil else { return }
        send(.remove(RemoveParameters(presenter: presenter))) { _ in }
    }

    fileprivate func take(_ message: [UInt8], from channel: any Channel) {
        let incoming: IncomingMessage
        do {
            incoming = try IncomingMessage(decoding: message)
        } catch {
            // A message that cannot be decoded shows that the daemon does not use the protocol. So the connection is closed.
            return channel.close(promise: nil)
        }
        switch incoming {
        case .response(.number(let id)?):
            let onReply = state.withLock { $0.requests.removeValue(forKey: id) }
            onReply?(.success(message))
        case .question(let id, let question):
            let registration = state.withLock { $0.registrations[question.parameters.presenter] }
            if let registration {
                registration.receive(question, id, on: self)
            } else {
                answer(id, of: generation)
            }
        case .noticeMessage(let noticeMessage):
            let registration = state.withLock { $0.registrations[noticeMessage.parameters.presenter] }
            registration?.receive(noticeMessage, on: self)
        case .unknown(let method, let id?):
            write(AnswerMessage(to: id, failure: .unknownMethod(method)), to: channel)
        case .response(nil):
            // The daemon sends such a reply without an id before it closes the connection. It contains the reason.
            do {
                let refused = try ResponseMessage<EmptyResult>(decoding: message).outcome
                if case .failure(let failure) = refused { state.withLock { $0.refusal = failure } }
            } catch {
                channel.close(promise: nil)
            }
        case .response, .event, .unknown: break
        }
    }
}

extension ProtocolFailure {
    /// Converts the error of a presenter. The failure contains the domain and code of that error.
    fileprivate init(presenter error: any Error) {
        let own = error as NSError
        self.init(
            code: -32000, message: own.localizedDescription,
            data: Details(
                origin: OriginForm(
                    domain: own.domain, code: own.code, message: own.localizedDescription)))
    }
}

/// Finds the messages in the bytes that the connection receives.
private final class MountConnectionHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let connection: MountConnection
    /// The limit is larger than that for messages of clients, because the daemon may send long lists of paths.
    private var reader = FrameReader(limit: 16 << 20)

    init(_ connection: MountConnection) { self.connection = connection }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        reader.append(unwrapInboundIn(data).readableBytesView)
        do throws(FramingFault) {
            while let message = try reader.next() { connection.take(message, from: context.channel) }
        } catch {
            context.close(promise: nil)
        }
    }

    func channelInactive(context: ChannelHandlerContext) { connection.closed(context.channel) }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
