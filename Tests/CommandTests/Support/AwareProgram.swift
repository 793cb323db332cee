// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import Glibc
import LinuxSystem
import Testing

/// A program that uses the protocol, on a connection of its own.
final class AwareProgram {
    let client: RawClient
    private var inbox: [(message: IncomingMessage, bytes: [UInt8])] = []
    private var lastID: Int64 = 0

    init(_ server: RunningServer) throws {
        client = try server.connect()
        let _: InitializeResult = try call(.initialize(InitializeParameters()))
    }

    func send(_ request: ControlProtocol.ClientRequest) throws -> MessageID {
        lastID += 1
        try write(RequestMessage(id: .number(lastID), request))
        return .number(lastID)
    }

    func write(_ message: some Encodable) throws {
        try client.socket.send(Framing.lines.frame(try JSONCodec.encode(message)))
    }

    /// Waits for the reply to a request. Messages that come before the reply are stored, and returned by later calls.
    func reply<Value: Decodable>(to id: MessageID) throws -> Value {
        let bytes = try take { if case .response(id) = $0 { true } else { false } }.bytes
        return try ResponseMessage<Value>(decoding: bytes).outcome.get()
    }

    func call<Value: Decodable>(_ request: ControlProtocol.ClientRequest) throws -> Value {
        try reply(to: try send(request))
    }

    func failure(of request: ControlProtocol.ClientRequest) throws -> ControlProtocol.ProtocolFailure? {
        try failure(of: try send(request))
    }

    func failure(of id: MessageID) throws -> ControlProtocol.ProtocolFailure? {
        do {
            let _: EmptyResult = try reply(to: id)
            return nil
        } catch let failure as ControlProtocol.ProtocolFailure {
            return failure
        }
    }

    func nextQuestion() throws -> (id: MessageID, question: PresenterQuestion) {
        guard case .question(let id, let question) = try take({ $0.isQuestion }).message else {
            preconditionFailure("it is a question")
        }
        return (id, question)
    }

    func nextNotice() throws -> PresenterNoticeMessage {
        guard case .noticeMessage(let noticeMessage) = try take({ $0.isNotice }).message else {
            preconditionFailure("it is news")
        }
        return noticeMessage
    }

    func nextEvent() throws -> EventForm {
        guard case .event(let event) = try take({ $0.isEvent }).message else {
            preconditionFailure("it is an event")
        }
        return event
    }

    /// Answers the next question. Fails if the next question is not of the given kind.
    @discardableResult
    func answer(_ request: PresenterRequest, refusing words: String? = nil) throws -> PresenterQuestion {
        let (id, question) = try nextQuestion()
        #expect(question.request == request)
        try write(AnswerMessage(to: id, failure: words.map { ProtocolFailure(code: -32000, message: $0) }))
        return question
    }

    /// Waits until every message that the server has sent so far has arrived. Returns the unread messages that are no replies.
    func unread() throws -> [IncomingMessage] {
        let _: CoordinationSnapshotForm = try call(.ps)
        return inbox.map(\.message)
    }

    func register(_ path: String, _ messages: PresenterMessages = .all) throws -> UInt64 {
        let result: RegisterResult = try call(
            .register(RegisterParameters(path: Array(path.utf8), messages: messages)))
        #expect(result.path == path)
        return result.presenter
    }

    func begin(
        _ path: String, _ access: Access, as identity: AccessBeginParameters.Identity? = nil
    ) throws -> MessageID {
        try send(.beginAccess(AccessBeginParameters([IntentForm(Array(path.utf8), access)], as: identity)))
    }

    /// Sends a message above the size limit, and waits until the server has closed the connection.
    func breakOff() throws {
        // The server may close the connection before the whole message is sent.
        do { try client.send(String(repeating: "x", count: ProtocolLimits.messageBytes + 1)) } catch {}
        _ = try client.receiveToEnd()
    }

    func end(_ access: AccessBeginResult) throws {
        let _: EmptyResult = try call(.endAccess(AccessEndParameters(access: access.access)))
    }

    private func take(
        _ isWanted: (IncomingMessage) -> Bool
    ) throws -> (message: IncomingMessage, bytes: [UInt8]) {
        while true {
            if let index = inbox.firstIndex(where: { isWanted($0.message) }) {
                return inbox.remove(at: index)
            }
            let bytes = Array(try client.line().utf8)
            inbox.append((try IncomingMessage(decoding: bytes), bytes))
        }
    }
}

extension IncomingMessage {
    fileprivate var isQuestion: Bool { if case .question = self { true } else { false } }
    fileprivate var isEvent: Bool { if case .event = self { true } else { false } }
    fileprivate var isNotice: Bool { if case .noticeMessage = self { true } else { false } }
}
