// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
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
    typealias OutboundOut = ByteBuffer

    private let peer: Peer
    private let service: Service
    /// Why this client is sent away, if it is.
    private let refusal: Failure?
    private var reader = FrameReader()
    private var outstanding = 0
    private var isInitialized = false
    private var isEnding = false
    private var hasInputEnded = false
    private var isReadDelayed = false

    init(of peer: Peer, to service: Service, refusal: Failure?) {
        self.peer = peer
        self.service = service
        self.refusal = refusal
    }

    func channelActive(context: ChannelHandlerContext) {
        if let refusal { end(context, with: refusal) }
        context.fireChannelActive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if !isEnding { reader.append(unwrapInboundIn(data).readableBytesView) }
    }

    func channelReadComplete(context: ChannelHandlerContext) { serve(context) }

    func channelWritabilityChanged(context: ChannelHandlerContext) { serve(context) }

    func read(context: ChannelHandlerContext) {
        isReadDelayed = !mayServe(context)
        if !isReadDelayed { context.read() }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard case .inputClosed? = event as? ChannelEvent else { return }
        // `echo … | socat` ends its side at once and still wants the replies.
        hasInputEnded = true
        serve(context)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        note("it broke off (\(error))")
        context.close(promise: nil)
    }

    private func mayServe(_ context: ChannelHandlerContext) -> Bool {
        !isEnding && outstanding < ProtocolLimits.outstandingRequests && context.channel.isWritable
    }

    private func serve(_ context: ChannelHandlerContext) {
        var isIdle = false
        while !isIdle, mayServe(context) {
            do throws(FramingFault) {
                guard let message = try reader.next() else {
                    isIdle = true
                    continue
                }
                handle(message, context)
            } catch {
                end(context, with: Self.failure(of: error))
            }
        }
        context.flush()
        if isIdle, hasInputEnded, outstanding == 0, !isEnding {
            closeAfterWrites(context)
        } else if isReadDelayed, mayServe(context) {
            read(context: context)
        }
    }

    private func handle(_ message: [UInt8], _ context: ChannelHandlerContext) {
        do throws(Failure) {
            switch try Envelope(decoding: message) {
            case .answer: note("it answered a question nobody asked")
            case .notification: break
            case .request(let id, let request): answer(id, request, context)
            }
        } catch {
            send(Reply(to: nil, .failure(error)), context)
        }
    }

    private func answer(
        _ id: MessageID, _ request: Result<Request, Failure>, _ context: ChannelHandlerContext
    ) {
        switch request {
        case .success(.initialize(let parameters)):
            send(Reply(to: id, initialize(parameters)), context)
        case _ where !isInitialized:
            send(Reply(to: id, .failure(.notInitialized)), context)
        case .success(.status):
            let form = StatusForm(service.status.status(), mount: service.mount, pid: OwnProcess.id)
            send(Reply(to: id, .success(.status(form))), context)
        case .success(.keptList(let parameters)):
            work(id, context) { try $0.list(parameters, for: $1) }
        case .success(.keptRead(let parameters)):
            work(id, context) { try $0.read(parameters, for: $1) }
        case .success(let request):
            send(Reply(to: id, .failure(.unknownMethod(request.method))), context)
        case .failure(let failure):
            send(Reply(to: id, .failure(failure)), context)
        }
    }

    private func initialize(_ parameters: InitializeParameters) -> Result<Response, Failure> {
        guard !isInitialized else { return .failure(.invalidRequest("'initialize' was sent before")) }
        guard parameters.acceptsOurVersion else { return .failure(.unsupportedVersion()) }
        isInitialized = true
        return .success(
            .initialize(
                InitializeResult(
                    version: service.mount.version, pid: OwnProcess.id, mount: service.mount.form)))
    }

    /// Reads from the store on a thread that may block, and answers from this one.
    private func work(
        _ id: MessageID, _ context: ChannelHandlerContext,
        _ body: @escaping @Sendable (any KeptContents, Peer) throws -> Response
    ) {
        guard let kept = service.kept else {
            return send(Reply(to: id, .failure(.notFound("this mount keeps nothing"))), context)
        }
        outstanding += 1
        service.workers.runIfActive(eventLoop: context.eventLoop) { [peer] in try body(kept, peer) }
            .assumeIsolated().whenComplete { result in
                self.outstanding -= 1
                self.send(Reply(to: id, result.mapError(Self.failure)), context)
                self.serve(context)
            }
    }

    private static func failure(of fault: FramingFault) -> Failure {
        switch fault {
        case .oversized(let limit): .invalidRequest("a message may have at most \(limit) bytes")
        case .malformedHeader: .invalidRequest("the header tells no Content-Length")
        }
    }

    private static func failure(of error: any Error) -> Failure {
        (error as? KeptFailure)?.failure ?? .internalError("\(error)")
    }

    private func send(_ reply: Reply, _ context: ChannelHandlerContext) {
        do {
            let framing = reader.framing ?? .lines
            let bytes = framing.frame(try reply.encoded())
            context.write(wrapOutboundOut(context.channel.allocator.buffer(bytes: bytes)), promise: nil)
        } catch {
            note("a reply could not be written as JSON (\(error))")
            context.close(promise: nil)
        }
    }

    /// Says why, and closes once that has been sent.
    private func end(_ context: ChannelHandlerContext, with failure: Failure) {
        note("closed: \(failure.message)")
        send(Reply(to: nil, .failure(failure)), context)
        closeAfterWrites(context)
    }

    /// A client that reads slowly gets its replies all the same.
    private func closeAfterWrites(_ context: ChannelHandlerContext) {
        isEnding = true
        context.writeAndFlush(wrapOutboundOut(ByteBuffer())).assumeIsolated().whenComplete { _ in
            context.close(promise: nil)
        }
    }

    private func note(_ line: String) {
        service.log("control connection of pid \(peer.pid), user \(peer.user): \(line)")
    }
}

extension KeptContents {
    func list(_ parameters: KeptListParameters, for peer: Peer) throws -> Response {
        // The path was checked when the message was decoded.
        let all = try entries(under: parameters.path.bytes ?? [], for: peer)
        return .keptList(
            KeptListResult(
                entries: Array(all.prefix(ProtocolLimits.listEntries)),
                isTruncated: all.count > ProtocolLimits.listEntries))
    }

    func read(_ parameters: KeptReadParameters, for peer: Peer) throws -> Response {
        let bytes = try read(parameters.id, at: parameters.offset, count: parameters.length, for: peer)
        return .keptRead(KeptReadResult(content: bytes, isAtEnd: bytes.count < parameters.length))
    }
}
