// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination

// Checks of rules that the decoder and encoder must fulfil for any input. Scripts/fuzz generates streams and also compiles this
// file, so the file contains no test. CorpusTests checks the corpus.

/// An input for which the decoder or encoder broke a rule.
struct ProtocolViolation: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

enum StreamChecks {
    /// The largest size of an error message: longer than any sentence of Truce with its quotation of the input.
    private static let longestRefusal = 8 << 10

    static func check(_ stream: [UInt8]) throws {
        // Each stream is read with two size limits. Most streams exceed the second limit.
        for limit in [ProtocolLimits.messageBytes, 64] {
            let whole = CutStream(stream, limit: limit, pieces: [stream.count])
            let pieces = CutStream(stream, limit: limit, pieces: Pieces(of: stream))
            try expect(whole == pieces, "how a stream was split makes a difference")
            for message in whole.messages { try checkFraming(of: message, as: whole.framing) }
        }
        for message in CutStream(stream, limit: ProtocolLimits.messageBytes, pieces: [stream.count]).messages
        {
            try checkFromClient(message)
            try checkFromServer(message)
        }
    }

    private static func checkFraming(of message: [UInt8], as framing: Framing?) throws {
        guard let framing else { throw ProtocolViolation("a message came before the first byte") }
        // If the first byte of a stream is a C, the decoder expects headers. So a stream of lines begins with a line end.
        let first = framing == .lines ? [UInt8(ascii: "\n")] : []
        let twice = first + framing.frame(message) + framing.frame(message)
        let again = CutStream(twice, limit: ProtocolLimits.messageBytes, pieces: [twice.count])
        try expect(again.messages == [message, message], "a message is another when it is sent on")
    }

    /// Decodes a message as the server does, and checks that its reply can be encoded.
    private static func checkFromClient(_ message: [UInt8]) throws {
        let envelope: ClientMessage
        do throws(ProtocolFailure) {
            envelope = try ClientMessage(decoding: message)
        } catch {
            return try checkRefusal(error, to: nil)
        }
        switch envelope {
        case .request(let id, .success(let request)):
            let again = try ClientMessage(decoding: JSONCodec.encode(RequestMessage(id: id, request)))
            guard case .request(id, .success(request)) = again else {
                throw ProtocolViolation("\(request) is another request when it is sent again: \(again)")
            }
        case .request(let id, .failure(let failure)): try checkRefusal(failure, to: id)
        case .notification(.success(let notification?)):
            let again = try ClientMessage(decoding: JSONCodec.encode(NotificationMessage(notification)))
            guard case .notification(.success(notification)) = again else {
                throw ProtocolViolation("\(notification) is another when it is sent again: \(again)")
            }
        case .notification(.success(nil)): break
        case .notification(.failure(let failure)): try checkRefusal(failure, to: nil)
        case .answer(let answer): try checkAnswer(answer)
        }
    }

    private static func checkAnswer(_ answer: ClientAnswer) throws {
        guard let id = answer.id else { return }
        let failure = answer.refusal.map { ProtocolFailure(code: -1, message: $0) }
        let again = try ClientMessage(decoding: JSONCodec.encode(AnswerMessage(to: id, failure: failure)))
        guard case .answer(answer) = again else {
            throw ProtocolViolation("\(answer) is another when it is sent again: \(again)")
        }
    }

    private static func checkRefusal(_ failure: ProtocolFailure, to id: MessageID?) throws {
        let bytes = try ReplyMessage(to: id, .failure(failure)).encoded()
        try expect(bytes.count <= longestRefusal, "a refusal has \(bytes.count) bytes")
        try expect(!bytes.contains(UInt8(ascii: "\n")), "a refusal has more than one line")
        let again = try ResponseMessage<EmptyResult>(decoding: bytes)
        guard again.id == id, case .failure(failure) = again.outcome else {
            throw ProtocolViolation("\(failure) is another when it is read: \(again)")
        }
    }

    static func expect(_ holds: Bool, _ what: @autoclosure () -> String) throws {
        if !holds { throw ProtocolViolation(what()) }
    }
}

// Checks messages that a client decodes. A server can be as hostile as a client.
extension StreamChecks {
    private static func checkFromServer(_ message: [UInt8]) throws {
        let incoming: IncomingMessage
        do {
            incoming = try IncomingMessage(decoding: message)
        } catch {
            return
        }
        let again: ServerMessage? =
            switch incoming {
            case .question(let id, let question): .question(id, question)
            case .noticeMessage(let noticeMessage): .noticeMessage(noticeMessage)
            case .event(let event): .event(event)
            case .runSuspended(let form): .runSuspended(form)
            case .response, .unknown: nil
            }
        if let again {
            try expect(
                try IncomingMessage(decoding: again.encoded()) == incoming,
                "\(incoming) is another when it is sent again")
        }
        if case .response = incoming { try checkResults(message) }
    }

    private static func checkResults(_ message: [UInt8]) throws {
        try checkResult(of: message) { (result: InitializeResult) in .initialize(result) }
        try checkResult(of: message) { (result: StatusForm) in .status(result) }
        try checkResult(of: message) { (result: RegisterResult) in .register(result) }
        try checkResult(of: message) { (result: AccessBeginResult) in .beginAccess(result) }
        try checkResult(of: message) { (result: SubscribeResult) in .subscribe(result) }
        try checkResult(of: message) { (result: EmptyResult) in .done(result) }
        try checkResult(of: message) { (result: CoordinationSnapshotForm) in .snapshot(result) }
        try checkResult(of: message) { (result: SettingsResult) in .showSettings(result) }
        try checkResult(of: message) { (result: VersionListResult) in .listVersions(result) }
        try checkResult(of: message) { (result: HistoryResult) in .history(result) }
        try checkResult(of: message) { (result: VersionReadResult) in .readVersion(result) }
        try checkResult(of: message) { (result: VersionChangeResult) in .changeVersions(result) }
    }

    private static func checkResult<Result: Codable & Hashable>(
        of message: [UInt8], as make: (Result) -> Response
    ) throws {
        let reply: ResponseMessage<Result>
        do {
            reply = try ResponseMessage(decoding: message)
        } catch {
            return
        }
        let again = try ResponseMessage<Result>(
            decoding: ReplyMessage(to: reply.id, reply.outcome.map(make)).encoded())
        try expect(
            again.id == reply.id && again.outcome == reply.outcome,
            "\(reply.outcome) is another when it is sent again: \(again.outcome)")
    }
}

/// The messages and the error that a reader gets from a stream that arrives in pieces.
private struct CutStream: Equatable {
    var messages: [[UInt8]] = []
    var fault: FramingFault?
    var isInMessage = false
    var framing: Framing?

    init(_ stream: [UInt8], limit: Int, pieces: some Sequence<Int>) {
        var reader = FrameReader(limit: limit)
        var rest = stream[...]
        for size in pieces {
            if rest.isEmpty || fault != nil { break }
            reader.append(rest.prefix(size))
            rest = rest.dropFirst(size)
            do throws(FramingFault) {
                while let message = try reader.next() { messages.append(message) }
                isInMessage = reader.isInMessage
            } catch {
                fault = error
                isInMessage = false
            }
        }
        framing = reader.framing
    }
}

/// The sizes of the pieces. They are computed from the bytes of the stream, so that the same stream always has the same result.
struct Pieces: Sequence, IteratorProtocol {
    private var state: UInt64 = 0xCBF2_9CE4_8422_2325

    init(of stream: [UInt8]) {
        for byte in stream { state = (state ^ UInt64(byte)) &* 0x100_0000_01B3 }
    }

    /// The next size, from 1 to 5,000 bytes; never nil.
    mutating func next() -> Int? {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        let (size, choice) = (Int(state >> 40), Int(state >> 33) % 4)
        return 1 + size % [1, 7, 100, 5000][choice]
    }
}
