// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import CoordinationEngine
import LinuxSystem
import NIOCore
import NIOPosix

/// One client: bytes in, messages out, and no more of either in memory than the limits say.
///
/// Back-pressure takes the place of errors: while too many requests are being served, or the client does
/// not read its replies, the next request is not looked at and the socket not read.
final class ClientConnection: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer

    /// What is logged once for a connection, however often it happens.
    enum ProtocolMisuse { case strayAnswer, strayNotice, badNotification, manyQuestions }

    let peer: Peer
    let services: SharedServices
    let channel: any Channel
    let loopGate: EventLoopGate
    let resources: ClientResources
    /// Where what the client asks for is done in its order.
    let lane: FairWorkQueue.SerialLane
    /// When it was accepted, to tell its process from a later one of the same number.
    let accepted = BootTicks.now
    private(set) lazy var presenters = ConnectionPresenters(of: self, in: services)
    private(set) lazy var accesses = ConnectionAccesses(of: self, in: services)
    private(set) lazy var events = ConnectionSubscriptions(of: self, in: services)
    private lazy var outbox = Outbox(to: channel) { [weak self] in self?.serve() }

    private var reader = FrameReader()
    private var flow = RequestFlow()
    private(set) var isInitialized = false
    /// Why this client is sent away, if it is.
    var refusal: ProtocolFailure?
    private var isEnding = false
    private var isClosed = false
    private var hasInputEnded = false
    private var isReadDelayed = false
    /// Until when it rests; nil if it does not.
    private var throttle: (end: Scheduled<Void>, ticket: ReadThrottle.ThrottleTicket)?
    private var isServedSoon = false
    private var queuedJobs = 0
    private var process: ProcessWatch.WatchedProcess?
    private var loggedMisuses: Set<ProtocolMisuse> = []

    /// How long a client that is sent away may take to read why.
    private static let closeTimeout = TimeAmount.seconds(10)
    /// How long one that is refused may take to send its first message.
    private static let refusalReadTime = TimeAmount.milliseconds(100)
    /// Not 0: the loop runs all that is due before it looks at sockets again.
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
            // A client that writes at once reads why, and does not just find that its message is not taken.
            _ = loop.assumeIsolated().scheduleTask(in: Self.refusalReadTime) { self.endAfterWrites() }
        }
        context.fireChannelActive()
    }

    /// From its beginning: a process may leave its own end of the socket in what we do not read, and then nobody hangs up.
    private func endWithProcess() {
        do {
            _ = try watchedProcess()
        } catch {
            // Who cannot be watched may still look, and is told when it wants more.
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
        // `echo … | socat` ends its side at once and still wants the replies.
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

// What comes in.
extension ClientConnection {
    /// Answers of presenters are read even while requests wait, lest everybody waits for everybody.
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
        // Empty lines are no messages; and a client whose requests wait goes on with each that is answered.
        if !isEnding, bytes >= ProtocolLimits.bytesPerRead { return yieldLoop(after: bytes, since: begin) }
        if isDrained, hasInputEnded, flow.isIdle, !accesses.hasWaitingAccesses, !isEnding {
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

    /// Lets others go first: what a client sends in one piece may be thousands of messages, and a large one takes a
    /// hundred times as long as a small one.
    ///
    /// Of several who do, each lets all the others go, and a moment passes besides: timers come before what others have
    /// sent, so the loop would look at nothing else.
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
        if flow.drop(id) { answer(id, .cancelled) } else { accesses.cancel(id) }
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

// What goes out.
extension ClientConnection {
    /// Answers at once.
    func answer(_ id: MessageID, _ failure: ProtocolFailure) { send(ReplyMessage(to: id, .failure(failure))) }
    func answer(_ id: MessageID, _ response: Response) { send(ReplyMessage(to: id, .success(response))) }

    /// A request is being served until it is finished.
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

    /// A request is not being served any more, whether or not it is answered.
    func finish() {
        flow.finish()
        serveSoon()
    }

    /// Answers a request that is not being served.
    func reply(_ id: MessageID, _ result: Result<Response, ProtocolFailure>) {
        send(ReplyMessage(to: id, result))
        serveSoon()
    }

    /// Not at once: the caller is not done.
    private func serveSoon() {
        guard !isServedSoon else { return }
        isServedSoon = true
        loop.assumeIsolated().execute {
            self.isServedSoon = false
            self.serve()
        }
    }

    /// Sends what the client did not ask for; one that does not read it is sent away.
    func push(_ message: ServerMessage) {
        guard !isEnding else { return }
        write { outbox.send(try frame(message.encoded()), isPushed: true) }
        closeIfOverrun()
    }

    /// The same of one that is written as JSON already.
    func push(encoded message: () throws -> [UInt8]) {
        guard !isEnding else { return }
        write { outbox.send(frame(try message()), isPushed: true) }
        closeIfOverrun()
    }

    /// Whether so much that the client did not ask for waits to be read that what can be left out should be.
    var isCrowded: Bool { outbox.isCrowded(telling: presenters.count) }

    /// Runs `body` when all that waits to be sent now has been written.
    func whenWritten(_ body: @escaping () -> Void) { if !isEnding { outbox.whenWritten(body) } }

    /// Sends what the client did not ask for if it is still wanted when its turn comes.
    func push(encoded message: () throws -> [UInt8], ifStill isWanted: @escaping () -> Bool) {
        guard !isEnding else { return }
        write { outbox.send(frame(try message()), ifStill: isWanted) }
        closeIfOverrun()
    }

    /// Whether a subscription will be told that its client must look for itself, so that what happens now need not be told.
    func hasGap(for subscription: UInt64) -> Bool { outbox.hasGap(for: subscription) }

    /// Sends what a subscription is told; when too much of it waits to be read, `gap` in its place, which
    /// says that the client must look for itself.
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

// Where work is done that may block.
extension ClientConnection {
    /// Reads something, in no order that matters, and makes a reply of it, which may be long.
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

    /// Has something done in the engine, in order; the process behind the connection is watched from then on.
    ///
    /// When the connection is gone before, it is done only if it is to be done `inAnyCase`: what others would not learn
    /// otherwise. `then` is not called when the connection is gone.
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

    /// Does the same here and now, for what does not block.
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

    /// Whether something that the client asked for has still to be done in the engine.
    var hasQueuedWork: Bool { queuedJobs > 0 }

    /// Somebody else may have inherited the socket, and keep it open when the process is dead.
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

// How it ends.
extension ClientConnection {
    /// Says why, and closes once that has been sent.
    func end(with failure: ProtocolFailure) {
        note("closed: \(failure.message)")
        send(ReplyMessage(to: nil, .failure(failure)))
        endAfterWrites()
    }

    /// At once.
    func close(because reason: String) {
        if !isClosed { note("closed: \(reason)") }
        closeSilently()
    }

    /// At once and without a word: the server ends.
    func closeSilently() {
        releaseEverything()
        channel.close(promise: nil)
    }

    /// A client that reads slowly gets its replies all the same, within bounds.
    private func endAfterWrites() {
        let channel = channel
        // Before the client can see its end.
        releaseEverything()
        outbox.finish { channel.close(promise: nil) }
        let timeout = loop.scheduleTask(in: Self.closeTimeout) { channel.close(promise: nil) }
        channel.closeFuture.whenComplete { _ in timeout.cancel() }
    }

    /// Gives back what the connection has in the engine, after what it began and before anything else.
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
        // Also when the desk does nothing else any more. Until then others of its user's do not get the room it took.
        services.workQueue.submit(in: lane) { [resources] in
            resources.close()
            for release in releases { release() }
        }
        // What it holds is not to wait for what a file system keeps of it.
        loop.assumeIsolated().scheduleTask(in: Self.cleanupTimeout) {
            [resources, workQueue = services.workQueue] in
            workQueue.submit(in: workQueue.serverLane) { resources.close() }
        }
    }
}
