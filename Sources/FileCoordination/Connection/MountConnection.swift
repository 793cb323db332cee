// SPDX-License-Identifier: Apache-2.0
import ControlClient
import ControlProtocol
import Foundation
import LinuxSystem
import NIOCore
import NIOPosix
import Synchronization

/// The connection of this process to the daemon of one mount. It is opened when it is first needed, and opened again when it is
/// needed after a loss.
///
/// Replies and messages of the daemon are handled on NIO's thread, which must not block.
final class MountConnection: Sendable {
    typealias ReplyHandler = @Sendable (Result<[UInt8], FileCoordinationError>) -> Void

    private struct State {
        var channel: (any Channel)?
        /// The number of connections that were opened to this mount so far. It shows whether the number of an access or
        /// presenter is still valid, because the daemon gives new numbers on each connection.
        var generation: UInt64 = 0
        /// The reason for which the daemon closes the connection; nil if the daemon has sent no reason.
        var refusal: ProtocolFailure?
        var lastRequest: Int64 = 0
        var requests: [Int64: ReplyHandler] = [:]
        var registrations: [UInt64: Registration] = [:]
        var isReconnecting = false
        /// How many attempts to connect and register the presenters have failed since the last success.
        var failures = 0
    }

    private static let all = Mutex<[[UInt8]: MountConnection]>([:])
    /// The seconds before the first attempt to connect again. After each failed attempt the time doubles, up to
    /// `longestRetryInterval`.
    private static let firstRetryInterval = 0.25
    private static let longestRetryInterval = 4.0

    let mountpoint: [UInt8]
    private let state = Mutex(State())
    /// Held while a connection is being opened. This can take long, so no other lock is held during that time.
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

    /// The URL of an item in the mount, in the form that other programs use for the item too.
    func url(_ pathInMount: [UInt8], isDirectory: Bool) -> URL {
        let path = mountpoint + (pathInMount.isEmpty ? [] : [UInt8(ascii: "/")]) + pathInMount
        return path.withPath {
            URL(fileURLWithFileSystemRepresentation: $0, isDirectory: isDirectory, relativeTo: nil)
        }
    }
}

// Sending messages.
extension MountConnection {
    /// Sends a request and returns its id. `onReply` is called once on NIO's thread. If there is no connection, it is called on
    /// the calling thread.
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

    /// The number of the connection that is open now; the number of the last connection if none is open.
    var generation: UInt64 { state.withLock { $0.generation } }

    func isCurrent(_ generation: UInt64) -> Bool {
        state.withLock { $0.channel != nil && $0.generation == generation }
    }

    func tell(_ notification: ClientNotification) {
        guard let channel = state.withLock({ $0.channel }) else { return }
        write(NotificationMessage(notification), to: channel)
    }

    /// Answers a question of the daemon. Does nothing if the connection on which the question arrived is closed.
    func answer(_ id: MessageID, of generation: UInt64, _ error: (any Error)? = nil) {
        let channel = state.withLock { $0.generation == generation ? $0.channel : nil }
        guard let channel else { return }
        write(AnswerMessage(to: id, failure: error.map(ProtocolFailure.init(presenter:))), to: channel)
    }

    private func write(_ message: some Encodable, to channel: any Channel) {
        do {
            let bytes = Framing.lines.frame(try JSONCodec.encode(message))
            // Every message is sent by the event loop, in the order of the calls. If NIO's thread wrote its own messages
            // directly, they could overtake messages of other threads.
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

    /// Decodes the reply to a request. If the reply contains an error, throws that error.
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
            // Presenters of this mount are waiting to be registered again, at a scheduled time. The connection exists now, so
            // they are registered without waiting for that time.
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
        // If the channel was closed before it was stored in `state`, the earlier call of `closed` did nothing. So `closed` is
        // called again.
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

    /// Called when the connection is lost: all requests without a reply fail. If the connection had presenters, they are
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

    /// Schedules an attempt to connect to the daemon of the mount, which can be a new daemon.
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

    /// Whether presenters wait to be registered: presenters of this mount's lost connection, and presenters that were never
    /// registered. The item of a presenter that was never registered can be in this mount.
    private var hasWaitingPresenters: Bool {
        LocalPresenterRegistry.shared.hasLost(on: self) || LocalPresenterRegistry.shared.hasNew
    }

    private func reconnect() {
        guard hasWaitingPresenters else { return state.withLock { $0.failures = 0 } }
        do throws(FileCoordinationError) {
            try connect()
        } catch {
            // Only presenters that were registered on the lost connection cause a new connection. Presenters that were never
            // registered wait until an access opens a connection.
            if LocalPresenterRegistry.shared.hasLost(on: self) { reconnectLater() }
            return
        }
        LocalPresenterRegistry.shared.registerAgain(on: self)
        // Some presenters are still not registered if the daemon has ended again, or if their items do not exist. For them, a
        // further attempt is scheduled.
        if LocalPresenterRegistry.shared.hasLost(on: self) { return reconnectLater() }
        state.withLock { $0.failures = 0 }
    }
}

// Presenters on this connection.
extension MountConnection {
    /// Registers a presenter at the daemon. Messages to the presenter are delivered after the reply has arrived.
    func register(_ registration: Registration, _ parameters: RegisterParameters)
        throws(FileCoordinationError)
    {
        try connect()
        let reply = BlockingPromise<Result<Void, FileCoordinationError>>()
        send(.register(parameters)) { [self] answer in
            // NIO's thread records the presenter here, before it reads further messages of the daemon. So the presenter is
            // already recorded when its first message arrives.
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
            // The message cannot be decoded, so the daemon does not use the protocol correctly. The connection is closed.
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
            // The daemon sends a reply without an id before it closes the connection. The reply contains the reason.
            do {
                let refused = try ResponseMessage<EmptyResult>(decoding: message).outcome
                if case .failure(let failure) = refused { state.withLock { $0.refusal = failure } }
            } catch {
                channel.close(promise: nil)
            }
        case .response, .event, .runSuspended, .unknown: break
        }
    }
}

extension ProtocolFailure {
    /// Makes a failure from the error of a presenter. The failure contains the domain and code of that error.
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
    /// The reader accepts longer messages than the daemon's reader does, because the daemon can send long lists of paths.
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
