// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import CoordinationEngine
import LinuxSystem
import NIOCore
import NIOPosix

/// Reads the requests of one client and writes the replies. The limits of the protocol bound the memory that the messages of a
/// client take.
///
/// A client that sends too much is not an error. In two cases the daemon begins no further request of the client, and does not
/// read its socket:
/// - while too many of its requests are being served, or
/// - while the client does not read its replies.
final class ClientConnection: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer

    /// The kinds of wrong messages that a client can send. Each kind is logged only once for each connection.
    enum ProtocolMisuse { case strayAnswer, strayNotice, badNotification, manyQuestions }

    let peer: Peer
    let services: SharedServices
    let channel: any Channel
    let loopGate: EventLoopGate
    let resources: ClientResources
    /// The lane of the work queue in which the jobs for this client run in order.
    let lane: FairWorkQueue.SerialLane
    /// The time at which the connection was accepted. If a process has the client's process id but started later than this, it
    /// is another process.
    let accepted = BootTicks.now
    private(set) lazy var presenters = ConnectionPresenters(of: self, in: services)
    private(set) lazy var accesses = ConnectionAccesses(of: self, in: services)
    private(set) lazy var runs = ConnectionRuns(of: self, in: services)
    private(set) lazy var events = ConnectionSubscriptions(of: self, in: services)
    private(set) lazy var history = ConnectionHistory(of: self, in: services)
    private lazy var outbox = Outbox(to: channel) { [weak self] in self?.serve() }

    private var reader = FrameReader()
    private var flow = RequestFlow()
    private(set) var isInitialized = false
    /// The reason why this client is refused; nil if it is served.
    var refusal: ProtocolFailure?
    private var isEnding = false
    private var isClosed = false
    private var hasInputEnded = false
    private var isReadDelayed = false
    /// The pause in which the daemon does not read the client's messages at present; nil if there is no pause.
    private var throttle: (end: Scheduled<Void>, ticket: ReadThrottle.ThrottleTicket)?
    private var isServedSoon = false
    private var queuedJobs = 0
    private var process: ProcessWatch.WatchedProcess?
    private var loggedMisuses: Set<ProtocolMisuse> = []

    /// How long the daemon waits for a client to read its last messages before it closes the connection.
    private static let closeTimeout = TimeAmount.seconds(10)
    /// How long the connection of a refused client stays open, so that the client can send its first message and read the
    /// refusal.
    private static let refusalReadTime = TimeAmount.milliseconds(100)
    /// The shortest pause in reading from a client. With a pause of 0, the event loop would continue with this client before it
    /// polls other sockets.
    private static let shortestPause = TimeAmount.microseconds(100)
    private static let cleanupTimeout = TimeAmount.seconds(1)

    init(of peer: Peer, on channel: any Channel, to services: SharedServices) {
        self.peer = peer
        self.services = services
        self.channel = channel
        loopGate = EventLoopGate(to: channel.eventLoop)
        resources = ClientResources(of: peer, in: services)
        lane = services.workQueue.lane(of: peer.user, isGuest: services.guest(peer) != nil)
    }

    var loop: any EventLoop { channel.eventLoop }

    func channelActive(context: ChannelHandlerContext) {
        endWithProcess()
        if let refusal {
            send(ReplyMessage(to: nil, .failure(refusal)))
            releaseEverything()
            // The connection is closed only after a short time. If it were closed now, the client's first message would fail,
            // and the client would not read the refusal.
            _ = loop.assumeIsolated().scheduleTask(in: Self.refusalReadTime) { self.endAfterWrites() }
        }
        context.fireChannelActive()
    }

    /// Watches the client's process, and ends the connection when the process ends.
    ///
    /// The end of the socket alone is not enough: the socket can stay open after the end of the process.
    private func endWithProcess() {
        do {
            _ = try watchedProcess()
        } catch {
            // If the process still runs, but cannot be watched, the connection stays. The client can then ask for the state,
            // but the daemon refuses its other requests.
            if error as? Errno == .noProcess { close(because: "its process has ended") }
        }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if !isEnding { reader.append(unwrapInboundIn(data).readableBytesView) }
    }

    func channelReadComplete(context: ChannelHandlerContext) { serve() }

    func read(context: ChannelHandlerContext) {
        isReadDelayed = !mayRead || throttle != nil
        if !isReadDelayed { context.read() }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard case .inputClosed? = event as? ChannelEvent else { return }
        // The client has closed only its sending end, and still waits for the replies. A command such as `echo … | socat` does
        // this.
        hasInputEnded = true
        serve()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        close(because: "it broke off (\(error))")
    }

    func channelInactive(context: ChannelHandlerContext) {
        releaseEverything()
        outbox.clear()
        context.fireChannelInactive()
    }
}

// Reads the client's messages.
extension ClientConnection {
    /// Whether the daemon may read the client's next message. It reads even while requests wait, because the message can be an
    /// answer for which another client waits.
    private var mayRead: Bool { !isEnding && outbox.isRead && flow.hasRoom }
    private var mayStart: Bool { !isEnding && outbox.isOpen && flow.mayStart }

    private func serve() {
        guard throttle == nil else { return }
        let begin = NIODeadline.now()
        var (isDrained, messages, bytes) = (false, 0, 0)
        while !isEnding, !isDrained {
            if mayStart, let (id, request) = flow.next() {
                start(id, request)
            } else if mayRead {
                guard messages < ProtocolLimits.messagesPerRead, bytes < ProtocolLimits.bytesPerRead else {
                    return yieldLoop(after: bytes, since: begin)
                }
                let pending = reader.pendingBytes
                let message = nextMessage()
                bytes += pending - reader.pendingBytes
                guard let message else {
                    isDrained = true
                    continue
                }
                messages += 1
                take(message)
            } else {
                break
            }
        }
        // Much input was read, but it contained too few messages to reach the limits in the loop. For example, the input
        // consisted of empty lines.
        if !isEnding, bytes >= ProtocolLimits.bytesPerRead { return yieldLoop(after: bytes, since: begin) }
        let isWaiting =
            accesses.hasWaitingAccesses || runs.hasWaitingRuns || history.hasWatches
        if isDrained, hasInputEnded, flow.isIdle, !isWaiting, !isEnding {
            if reader.isInMessage {
                end(with: .invalidRequest("the last message is cut off"))
            } else {
                endAfterWrites()
            }
        } else if isReadDelayed, mayRead {
            isReadDelayed = false
            channel.read()
        }
    }

    /// Pauses the reading from this client, so that the event loop serves other clients.
    ///
    /// A client can send thousands of messages without waiting for replies, and a large message takes a hundred times as long
    /// as a small message.
    private func yieldLoop(after bytes: Int, since begin: NIODeadline) {
        let large = bytes >= ProtocolLimits.bytesPerRead
        let least = large ? TimeAmount.microseconds(Int64(bytes)) : Self.shortestPause
        let (ticket, time) = services.readThrottle.value.enter(
            for: NIODeadline.now() - begin, of: peer.user, least: least)
        let end = loop.assumeIsolated().scheduleTask(in: time) {
            self.leaveThrottle()
            self.serve()
        }
        throttle = (end, ticket)
    }

    private func leaveThrottle() {
        guard let (end, ticket) = throttle.take() else { return }
        end.cancel()
        services.readThrottle.value.leave(ticket)
    }

    private func nextMessage() -> [UInt8]? {
        do throws(FramingFault) {
            return try reader.next()
        } catch {
            end(with: ProtocolFailure(error))
            return nil
        }
    }

    private func take(_ message: [UInt8]) {
        do throws(ProtocolFailure) {
            switch try ClientMessage(decoding: message) {
            case .request(let id, let request): flow.queue(id, request)
            case .answer(let answer): presenters.take(answer)
            case .notification(.success(.progress(let id))): presenters.progress(id)
            case .notification(.success(.unsaved(let parameters))): presenters.noteUnsaved(parameters)
            case .notification(.success(.cancel(let id))): cancel(id)
            case .notification(.success(nil)): break
            case .notification(.failure(let failure)): logOnce(.badNotification, failure.message)
            }
        } catch {
            send(ReplyMessage(to: nil, .failure(error)))
        }
    }

    private func cancel(_ id: MessageID) {
        if flow.drop(id) { return answer(id, .cancelled) }
        if !runs.cancel(id), !history.cancel(id) { accesses.cancel(id) }
    }

    private func start(_ id: MessageID, _ request: Result<ControlProtocol.ClientRequest, ProtocolFailure>) {
        switch request {
        case .failure(let failure)
        where !isInitialized && failure.code == ProtocolFailure.unknownMethod("").code:
            answer(id, .notInitialized)
        case .failure(let failure): answer(id, failure)
        case .success(.initialize(let parameters)): initialize(parameters, answering: id)
        case .success(let request) where isInitialized: start(id, request)
        case .success: answer(id, .notInitialized)
        }
    }

    func initialize(_ parameters: InitializeParameters, answering id: MessageID) {
        guard !isInitialized else { return answer(id, .invalidRequest("'initialize' was sent before")) }
        guard parameters.acceptsOurVersion else { return answer(id, .unsupportedVersion()) }
        isInitialized = true
        let result = InitializeResult(
            version: services.mount.version, pid: OwnProcess.id, mount: services.mount.form)
        send(ReplyMessage(to: id, .success(.initialize(result))))
    }
}

// Sends messages.
extension ClientConnection {
    /// Sends the reply to a request that was not counted by `begin`.
    func answer(_ id: MessageID, _ failure: ProtocolFailure) { send(ReplyMessage(to: id, .failure(failure))) }
    func answer(_ id: MessageID, _ response: Response) { send(ReplyMessage(to: id, .success(response))) }

    /// Counts a request as being served, until `finish` is called. Reserves room for its reply in the outbox.
    func begin(_ id: MessageID, reserving bytes: Int = 0) {
        flow.begin()
        outbox.reserve(bytes)
    }

    func finish(_ id: MessageID, _ result: Result<Response, ProtocolFailure>) {
        finish { try ReplyMessage(to: id, result).encoded() }
    }

    private func finish(reserved bytes: Int = 0, _ encode: () throws -> [UInt8]) {
        outbox.release(bytes)
        write { outbox.send(frame(try encode())) }
        finish()
    }

    /// Counts one request less as being served, whether or not it was answered.
    func finish() {
        flow.finish()
        serveSoon()
    }

    /// Sends the reply to a request that ``finish()`` has already subtracted from the requests being served.
    func reply(_ id: MessageID, _ result: Result<Response, ProtocolFailure>) {
        send(ReplyMessage(to: id, result))
        serveSoon()
    }

    /// Continues with the waiting requests after the present function has returned.
    private func serveSoon() {
        guard !isServedSoon else { return }
        isServedSoon = true
        loop.assumeIsolated().execute {
            self.isServedSoon = false
            self.serve()
        }
    }

    /// Sends a message that is not a reply. If too many such messages wait because the client does not read them, the
    /// connection is closed.
    func push(_ message: ServerMessage) {
        guard !isEnding else { return }
        write { outbox.send(try frame(message.encoded()), isPushed: true) }
        closeIfOverrun()
    }

    /// Sends a message that is not a reply, and that is already encoded as JSON.
    func push(encoded message: () throws -> [UInt8]) {
        guard !isEnding else { return }
        write { outbox.send(frame(try message()), isPushed: true) }
        closeIfOverrun()
    }

    /// Whether so many messages wait that notices and events about names are not sent to this client for now.
    var isCrowded: Bool { outbox.isCrowded(telling: presenters.count) }

    /// Calls `body` when all messages that are now in the outbox have been written.
    func whenWritten(_ body: @escaping () -> Void) { if !isEnding { outbox.whenWritten(body) } }

    /// Queues a message that is not a reply. When it is the next message to be written, `isWanted` is called. If that returns
    /// false, the message is dropped.
    func push(encoded message: () throws -> [UInt8], ifStill isWanted: @escaping () -> Bool) {
        guard !isEnding else { return }
        write { outbox.send(frame(try message()), ifStill: isWanted) }
        closeIfOverrun()
    }

    /// Whether an event of the kind `gap` waits to be sent to this subscription. Later events then need not be sent, because
    /// the gap tells the client that events are missing.
    func hasGap(for subscription: UInt64) -> Bool { outbox.hasGap(for: subscription) }

    /// Sends an event to a subscription.
    ///
    /// If too many messages wait, the event `gap` replaces all waiting events. The client must then examine the files itself.
    func push(
        encoded message: () throws -> [UInt8], about subscription: UInt64, orGap gap: ServerMessage
    ) {
        guard !isEnding else { return }
        let framing = reader.framing ?? .lines
        let encodedGap = { framing.frame(try gap.encoded()) }
        write {
            if isCrowded {
                try outbox.leaveGap(for: subscription, orElse: encodedGap)
            } else {
                outbox.send(frame(try message()), about: subscription, orGap: encodedGap)
            }
        }
        closeIfOverrun()
    }

    private func closeIfOverrun() {
        guard outbox.isOverrun(telling: presenters.count) else { return }
        close(because: "it does not read what its presenters are sent")
    }

    private func send(_ reply: ReplyMessage) { write { outbox.send(try frame(reply.encoded())) } }

    private func frame(_ message: [UInt8]) -> [UInt8] { (reader.framing ?? .lines).frame(message) }

    private func write(_ body: () throws -> Void) {
        guard !isClosed else { return }
        do {
            try body()
        } catch {
            close(because: "a message could not be written as JSON (\(error))")
        }
    }

    func note(_ line: String) {
        guard let more = services.guest(peer) == nil ? "" : services.guestLogLimiter.note(peer.user) else {
            return
        }
        services.log("control connection of pid \(peer.pid), user \(peer.user): \(line)\(more)")
    }

    func logOnce(_ remark: ProtocolMisuse, _ line: String) {
        if loggedMisuses.insert(remark).inserted { note(line) }
    }
}

// Runs work on other threads if the work can block.
extension ClientConnection {
    /// Runs a query on the read queue, in no particular order, and sends its reply. `bytes` is the room that is reserved for
    /// the reply.
    func runQuery(
        _ id: MessageID, reserving bytes: Int,
        _ body: @escaping @Sendable (SharedServices, Peer) throws -> Response
    ) {
        begin(id, reserving: bytes)
        let lane = services.readQueue.lane(of: peer.user, isGuest: services.guest(peer) != nil)
        services.readQueue.run(in: lane, on: loop) { [services, peer] in
            try ReplyMessage(to: id, .success(try body(services, peer))).encoded()
        }
        .assumeIsolated().whenComplete { result in
            guard !self.isClosed else { return }
            self.finish(reserved: bytes) {
                switch result {
                case .success(let message): message
                case .failure(let error): try ReplyMessage(to: id, .failure(ProtocolFailure(error))).encoded()
                }
            }
        }
    }

    /// Runs `body` on the work queue, after the earlier jobs of this connection. Before that, begins to watch the client's
    /// process.
    ///
    /// If the connection has ended, `body` runs only if `inAnyCase` is true. That parameter is for changes that other programs
    /// must see. `then` runs on the event loop after `body`, but not after the end of the connection.
    func onWorkQueue<Value: Sendable>(
        inAnyCase: Bool = false,
        _ body:
            @escaping @Sendable (ClientResources, ProcessWatch.WatchedProcess) throws(ProtocolFailure) ->
            Value,
        then: @escaping (Result<Value, ProtocolFailure>) -> Void
    ) {
        let process: ProcessWatch.WatchedProcess
        do {
            process = try watchedProcess()
        } catch {
            return then(.failure(.unwatched(error)))
        }
        queuedJobs += 1
        services.workQueue.run(in: lane, on: loop) { [resources] in
            if !inAnyCase { try resources.checkConnected() }
            return try body(resources, process)
        }
        .assumeIsolated().whenComplete { result in
            self.queuedJobs -= 1
            if !self.isClosed { then(result.mapError(ProtocolFailure.init)) }
        }
    }

    /// Runs `body` on the event loop. `body` must not block.
    func runInline<Value>(
        _ body: (ClientResources, ProcessWatch.WatchedProcess) throws(ProtocolFailure) -> Value
    ) -> Result<Value, ProtocolFailure> {
        do {
            return .success(try body(resources, try watchedProcess()))
        } catch let failure as ProtocolFailure {
            return .failure(failure)
        } catch {
            return .failure(.unwatched(error))
        }
    }

    /// Whether jobs of this connection wait or run on the work queue.
    var hasQueuedWork: Bool { queuedJobs > 0 }

    /// Returns the watched process of the client; its end closes the connection. The socket alone does not show that end,
    /// because a child of the process can have inherited the socket.
    private func watchedProcess() throws -> ProcessWatch.WatchedProcess {
        if let process { return process }
        let bound = NIOLoopBound(self, eventLoop: loop)
        let watched = try channel.pipeline.syncOperations.withUnsafeTransportIfAvailable(
            of: NIOBSDSocket.Handle.self
        ) { [services, loopGate, accepted] socket in
            try services.watch.watch(try OtherProcess.watch(peerOf: socket, connected: accepted)) {
                loopGate.run { bound.value.close(because: "its process has ended") }
            }
        }
        guard let watched else { throw ChannelError.operationUnsupported }
        process = watched
        return watched
    }
}

// Ends the connection.
extension ClientConnection {
    /// Sends the client the reason, and then closes the connection.
    func end(with failure: ProtocolFailure) {
        note("closed: \(failure.message)")
        send(ReplyMessage(to: nil, .failure(failure)))
        endAfterWrites()
    }

    func close(because reason: String) {
        if !isClosed { note("closed: \(reason)") }
        closeSilently()
    }

    /// Closes the connection without sending the waiting messages, and writes no log line. The server calls this when it ends.
    func closeSilently() {
        releaseEverything()
        channel.close(promise: nil)
    }

    /// Closes the connection when all replies are written, or after a timeout.
    private func endAfterWrites() {
        let channel = channel
        // The claims and presenters are released first. The client can then rely on their release when it sees the end of the
        // connection.
        releaseEverything()
        outbox.finish { channel.close(promise: nil) }
        let timeout = loop.scheduleTask(in: Self.closeTimeout) { channel.close(promise: nil) }
        channel.closeFuture.whenComplete { _ in timeout.cancel() }
    }

    /// Releases the claims and presenters of the connection, after the jobs that the connection has begun.
    private func releaseEverything() {
        isEnding = true
        guard !isClosed else { return }
        isClosed = true
        loopGate.close()
        process = nil
        resources.noteDisconnection()
        leaveThrottle()
        let releases = [presenters.close(), accesses.close()]
        events.close()
        history.close()
        // This job runs even if the work queue has ended. Before it runs, the presenters and items still count toward the
        // limits of the guest.
        services.workQueue.submit(in: lane) { [resources] in
            resources.close()
            for release in releases { release() }
        }
        // If a file system does not answer, it can block the jobs of this connection, and the job above does not run.
        // In this case a job of the server releases the claims after a timeout.
        loop.assumeIsolated().scheduleTask(in: Self.cleanupTimeout) {
            [resources, workQueue = services.workQueue] in
            workQueue.submit(in: workQueue.serverLane) { resources.close() }
        }
    }
}
