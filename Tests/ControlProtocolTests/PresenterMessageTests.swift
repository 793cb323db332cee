// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import Testing

/// Checks how registrations, accesses and messages to presenters (Protocol.md) are encoded and decoded, in both directions.
struct PresenterMessageTests {
    private static let bytes = MessageSamples.bytes

    static let allRequests: [ControlProtocol.ClientRequest] =
        [.ps, .remove(RemoveParameters(presenter: 7)), .endAccess(AccessEndParameters(access: UInt64.max))]
        + [[], Array("a/b c".utf8), bytes].flatMap { path -> [ControlProtocol.ClientRequest] in
            [
                .why(WhyParameters(path: path)),
                .generation(GenerationParameters(path: path)),
                .preserveVersion(PreserveParameters(path: path, contents: path)),
                .beginAccess(
                    AccessBeginParameters([IntentForm(path, .write(.updating), ifGeneration: "e1f-12")])),
                .register(RegisterParameters(path: path, messages: .all)),
                .register(RegisterParameters(path: path, messages: [.save, .didMove])),
                .register(RegisterParameters(path: path, messages: [])),
                .beginAccess(AccessBeginParameters([IntentForm(path, .read())])),
                .beginAccess(
                    AccessBeginParameters(
                        [IntentForm(path, .write(.forMoving)), IntentForm([0x78], .write(.forReplacing))],
                        as: .purpose("é\u{1F600}"))),
                .beginAccess(
                    AccessBeginParameters([IntentForm(path, .write(.updating))], as: .presenter(3))),
                .beginAccess(nested(path)),
                .prepareAccess(AccessBeginParameters([IntentForm(path, .write(.forDeleting))])),
                .prepareAccess(nested(path, .read([.withoutChanges]))),
                .prepareAccess(AccessBeginParameters([IntentForm(path, .read())], as: .purpose("p"))),
                .prepareAccess(AccessBeginParameters([IntentForm(path, .read())], as: .presenter(3))),
                .willMove(MoveParameters(access: 1, from: path, to: path)),
                .didMove(MoveParameters(access: 1, from: path, to: path)),
                .register(RegisterParameters(path: path, messages: .all, purpose: "p")),
                .register(RegisterParameters(path: path, messages: .all, savedBy: ProcessForm(pid: 7))),
                .register(
                    RegisterParameters(
                        path: path, messages: .save, purpose: "p",
                        savedBy: ProcessForm(pid: 7, started: 8))),
                .subscribe(SubscribeParameters(path: path)),
                .subscribe(SubscribeParameters(path: path, after: EventPosition(epoch: "e", sequence: 4))),
                .unsubscribe(UnsubscribeParameters(subscription: 9)),
            ]
        }

    /// A read access with every option. The access is within another access, answers a question, and is made for another
    /// process.
    private static func nested(
        _ path: [UInt8], _ access: Access = .read([.withoutChanges, .resolvesSymbolicLink])
    ) -> AccessBeginParameters {
        var parameters = AccessBeginParameters([
            IntentForm(path, access),
            IntentForm([0x78], .read([.immediatelyAvailableMetadataOnly, .forUploading])),
            IntentForm([0x79], .write(.contentIndependentMetadataOnly)),
        ])
        parameters.within = [1, 2]
        parameters.answering = .text("q")
        parameters.onBehalfOf = ProcessForm(pid: 7, started: 8)
        return parameters
    }

    @Test(
        "the server decodes each presenter and access request that a client encodes to an equal request",
        arguments: allRequests)
    func theServerDecodesEachPresenterRequestThatAClientEncodes(request: ControlProtocol.ClientRequest) throws
    {
        let bytes = try JSONCodec.encode(RequestMessage(id: .text("q"), request))
        guard case .request(.text("q"), let read) = try ClientMessage(decoding: bytes) else {
            return #expect(Bool(false), "the id is lost")
        }
        #expect(try read.get() == request)
        #expect(!bytes.contains(UInt8(ascii: "\n")))
    }

    @Test(
        "the server decodes each notification that a client encodes to an equal notification",
        arguments: MessageSamples.notifications)
    func theServerDecodesEachNotificationThatAClientEncodes(notification: ClientNotification) throws {
        let bytes = try JSONCodec.encode(NotificationMessage(notification))
        guard case .notification(let read) = try ClientMessage(decoding: bytes) else {
            return #expect(Bool(false), "it is no notification")
        }
        #expect(try read.get() == notification)
    }

    @Test("an encoded answer contains its id, and one short line of its error")
    func anEncodedAnswerContainsItsIDAndOneLineOfItsError() throws {
        let done = try JSONCodec.encode(AnswerMessage(to: .number(5)))
        #expect(try answer(done) == ClientAnswer(to: .number(5)))
        let words = "one\ntwo\u{202E}" + String(repeating: "x", count: 1000)
        let failed = try JSONCodec.encode(
            AnswerMessage(to: .number(5), failure: ProtocolFailure(code: 1, message: words)))
        let refusal = try #require(try answer(failed).refusal)
        #expect(refusal.hasPrefix("one two x"))
        #expect(refusal.unicodeScalars.count == ProtocolLimits.excerptScalars)
    }

    /// Malformed answers of a client. JSON-RPC allows no reply to an answer, so the server reports no error.
    static let oddForms: [(String, ClientAnswer)] = [
        (#"{"jsonrpc":"2.0","id":1,"result":null}"#, ClientAnswer(to: .number(1))),
        (#"{"jsonrpc":"2.0","id":1,"result":null,"error":null}"#, ClientAnswer(to: .number(1))),
        (#"{"jsonrpc":"2.0","id":"a","result":[{}]}"#, ClientAnswer(to: .text("a"))),
        (#"{"jsonrpc":"2.0","id":null,"result":0}"#, ClientAnswer(to: nil)),
        (#"{"jsonrpc":"2.0","result":0}"#, ClientAnswer(to: nil)),
        (#"{"jsonrpc":"2.0","id":{},"result":0}"#, ClientAnswer(to: nil)),
        (#"{"jsonrpc":"2.0","id":1,"error":7}"#, ClientAnswer(to: .number(1), refusal: "")),
        (#"{"jsonrpc":"2.0","id":1,"error":{}}"#, ClientAnswer(to: .number(1), refusal: "")),
        (
            #"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","data":[1]}}"#,
            ClientAnswer(to: .number(1), refusal: "m")
        ),
        (
            #"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"m"}}"#,
            ClientAnswer(to: .number(1), refusal: "m")
        ),
    ]

    @Test("answers with unusual or missing members are decoded as answers", arguments: oddForms)
    func answersWithUnusualOrMissingMembersAreDecoded(text: String, expected: ClientAnswer) throws {
        #expect(try answer(Array(text.utf8)) == expected)
    }

    private func answer(_ bytes: [UInt8]) throws -> ClientAnswer {
        guard case .answer(let answer) = try ClientMessage(decoding: bytes) else {
            throw ProtocolFailure.internalError("it is no answer")
        }
        return answer
    }

    @Test(
        "a client decodes each question that the server encodes to an equal question",
        arguments: PresenterRequest.allCases)
    func aClientDecodesEachQuestionThatTheServerEncodes(request: PresenterRequest) throws {
        let question = MessageSamples.question(request)
        let bytes = try ServerMessage.question(.number(9), question).encoded()
        #expect(try IncomingMessage(decoding: bytes) == .question(.number(9), question))
        #expect(question.parameters.bytesOfPath == Self.bytes)
    }

    @Test(
        "a client decodes each notice that the server encodes to an equal notice",
        arguments: PresenterNotice.allCases)
    func aClientDecodesEachNoticeThatTheServerEncodes(notice: PresenterNotice) throws {
        let noticeMessage = MessageSamples.noticeMessage(notice)
        #expect(
            try IncomingMessage(decoding: ServerMessage.noticeMessage(noticeMessage).encoded())
                == .noticeMessage(noticeMessage))
        #expect(noticeMessage.parameters.bytesOfNewPath == (notice == .didMove ? Self.bytes + [0x63] : nil))
    }

    @Test(
        "a client decodes each event that the server encodes to an equal event", arguments: EventKind.allCases
    )
    func aClientDecodesEachEventThatTheServerEncodes(kind: EventKind) throws {
        let event = MessageSamples.event(kind)
        #expect(try IncomingMessage(decoding: ServerMessage.event(event).encoded()) == .event(event))
        #expect(event.bytesOfPath == (kind == .gap ? nil : Self.bytes))
        #expect(event.bytesOfNewPath == (kind == .moved ? Self.bytes + [0x63] : nil))
    }

    @Test("a client recognizes replies and unknown messages by their members")
    func aClientRecognizesRepliesByTheirMembers() throws {
        func read(_ text: String) throws -> IncomingMessage {
            try IncomingMessage(decoding: Array(text.utf8))
        }
        #expect(try read(#"{"jsonrpc":"2.0","id":4,"result":{}}"#) == .response(.number(4)))
        #expect(try read(#"{"jsonrpc":"2.0","id":null,"error":{}}"#) == .response(nil))
        #expect(
            try read(#"{"jsonrpc":"2.0","id":1,"method":"presenter/new","params":{}}"#)
                == .unknown(method: "presenter/new", .number(1)))
        #expect(try read(#"{"jsonrpc":"2.0","method":"$/x"}"#) == .unknown(method: "$/x", nil))
        #expect(throws: (any Error).self) { try read(#"{"jsonrpc":"2.0","id":1,"method":"presenter/save"}"#) }
    }

    @Test("a client decodes each result and each error with program names that the server encodes")
    func aClientDecodesEachResultAndErrorThatTheServerEncodes() throws {
        let (actor, snapshot) = (MessageSamples.actor, MessageSamples.snapshot)
        try roundTrip(.snapshot(snapshot), snapshot)
        let register = RegisterResult(presenter: 1, path: Self.bytes, messages: .all)
        try roundTrip(.register(register), register)
        let subscription = SubscribeResult(subscription: 9, epoch: "e", sequence: 4, hasGap: true)
        try roundTrip(.subscribe(subscription), subscription)
        let access = AccessBeginResult(access: 3, intents: [IntentForm(Self.bytes, .write(.forDeleting))])
        try roundTrip(.beginAccess(access), access)
        try roundTrip(.done(EmptyResult()), EmptyResult())
        let failure = ProtocolFailure.refused("no", by: [actor])
        let message = try ResponseMessage<EmptyResult>(
            decoding: ReplyMessage(to: .number(1), .failure(failure)).encoded())
        #expect(message.outcome == .failure(failure))
        #expect(failure.data?.holders == [actor])
    }

    private func roundTrip<Value: Codable & Equatable>(_ response: Response, _ value: Value) throws {
        let bytes = try ReplyMessage(to: .number(1), .success(response)).encoded()
        #expect(try ResponseMessage<Value>(decoding: bytes).outcome.get() == value)
    }
}
