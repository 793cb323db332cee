// SPDX-License-Identifier: Apache-2.0
import Coordination
import FoundationEssentials

/// A request in the form in which a client sends it.
package struct RequestMessage: Sendable, Encodable {
    private enum Key: String, CodingKey { case jsonrpc, id, method, params }

    package let id: MessageID
    package let request: ClientRequest

    package init(id: MessageID, _ request: ClientRequest) {
        self.id = id
        self.request = request
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        try container.encode("2.0", forKey: .jsonrpc)
        try container.encode(id, forKey: .id)
        try container.encode(request.method.rawValue, forKey: .method)
        switch request {
        case .initialize(let parameters): try container.encode(parameters, forKey: .params)
        case .status, .ps: break
        case .register(let parameters): try container.encode(parameters, forKey: .params)
        case .remove(let parameters): try container.encode(parameters, forKey: .params)
        case .beginAccess(let parameters): try container.encode(parameters, forKey: .params)
        case .prepareAccess(let parameters): try container.encode(parameters, forKey: .params)
        case .endAccess(let parameters): try container.encode(parameters, forKey: .params)
        case .willMove(let parameters): try container.encode(parameters, forKey: .params)
        case .didMove(let parameters): try container.encode(parameters, forKey: .params)
        case .subscribe(let parameters): try container.encode(parameters, forKey: .params)
        case .unsubscribe(let parameters): try container.encode(parameters, forKey: .params)
        case .showSettings(let parameters): try container.encode(parameters, forKey: .params)
        case .why(let parameters): try container.encode(parameters, forKey: .params)
        case .generation(let parameters): try container.encode(parameters, forKey: .params)
        case .listVersions(let parameters): try container.encode(parameters, forKey: .params)
        case .readVersion(let parameters): try container.encode(parameters, forKey: .params)
        case .preserveVersion(let parameters): try container.encode(parameters, forKey: .params)
        case .beginRun(let parameters): try container.encode(parameters, forKey: .params)
        case .endRun(let parameters): try container.encode(parameters, forKey: .params)
        case .resolveVersions(let parameters), .removeVersions(let parameters):
            try container.encode(parameters, forKey: .params)
        case .pruneVersions(let parameters): try container.encode(parameters, forKey: .params)
        case .listHistory(let parameters): try container.encode(parameters, forKey: .params)
        case .watchHistory(let parameters): try container.encode(parameters, forKey: .params)
        }
    }
}

/// A notification in the form in which a client sends it.
package struct NotificationMessage: Sendable, Encodable {
    private enum Key: String, CodingKey { case jsonrpc, method, params }

    package let notification: ClientNotification

    package init(_ notification: ClientNotification) { self.notification = notification }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        try container.encode("2.0", forKey: .jsonrpc)
        try container.encode(notification.method.rawValue, forKey: .method)
        try notification.encode(into: &container, forKey: .params)
    }
}

/// The answer to a question of the server, in the form in which a client sends it.
package struct AnswerMessage: Sendable, Encodable {
    private enum Key: String, CodingKey { case jsonrpc, id, result, error }

    package let id: MessageID
    /// The error with which the client refuses; nil if the client did what the question asks for.
    package let failure: ProtocolFailure?

    package init(to id: MessageID, failure: ProtocolFailure? = nil) {
        self.id = id
        self.failure = failure
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        try container.encode("2.0", forKey: .jsonrpc)
        try container.encode(id, forKey: .id)
        if let failure {
            try container.encode(failure, forKey: .error)
        } else {
            try container.encode(EmptyResult(), forKey: .result)
        }
    }
}

/// A message that a client has received from a server, by the kind of message.
package enum IncomingMessage: Hashable, Sendable {
    /// The reply to a request of the client. The client decodes the result of the reply as a ``ResponseMessage``.
    ///
    /// The id is nil if the server could not decode the client's message, and so has no id for the reply.
    case response(MessageID?)
    case question(MessageID, PresenterQuestion)
    case noticeMessage(PresenterNoticeMessage)
    case event(EventForm)
    case runSuspended(RunSuspendedForm)
    /// A message of a kind that this client does not know, from a newer server. If it has an id, it is a request, and the
    /// client answers with the error -32601.
    case unknown(method: String, MessageID?)

    /// Decodes one message that a ``FrameReader`` has found in the stream of bytes.
    package init(decoding bytes: [UInt8]) throws {
        try JSONCodec.check(bytes)
        self = try JSONDecoder().decode(Self.self, from: Data(bytes))
    }
}

extension IncomingMessage: Decodable {
    private enum Key: String, CodingKey { case id, method, params }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: Key.self)
        let id = try container.decodeIfPresent(MessageID.self, forKey: .id)
        guard let method = try container.decodeIfPresent(String.self, forKey: .method) else {
            self = .response(id)
            return
        }
        let prefix = "presenter/"
        let name = method.hasPrefix(prefix) ? String(method.dropFirst(prefix.count)) : ""
        if let id, let request = PresenterRequest(rawValue: name) {
            let parameters = try container.decode(PresenterQuestion.Parameters.self, forKey: .params)
            self = .question(id, PresenterQuestion(request, parameters))
        } else if id == nil, let notice = PresenterNotice(rawValue: name) {
            let parameters = try container.decode(PresenterNoticeMessage.Parameters.self, forKey: .params)
            self = .noticeMessage(PresenterNoticeMessage(notice, parameters))
        } else if id == nil, method == EventForm.method {
            self = .event(try container.decode(EventForm.self, forKey: .params))
        } else if id == nil, method == RunSuspendedForm.method {
            self = .runSuspended(try container.decode(RunSuspendedForm.self, forKey: .params))
        } else {
            self = .unknown(method: method, id)
        }
    }
}

/// The reply to a request. `Value` is the type of result that the method of the request returns.
package struct ResponseMessage<Value: Decodable>: Decodable {
    private enum Key: String, CodingKey { case id, result, error }

    package let id: MessageID?
    package let outcome: Result<Value, ProtocolFailure>

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: Key.self)
        id = try container.decodeIfPresent(MessageID.self, forKey: .id)
        if let failure = try container.decodeIfPresent(ProtocolFailure.self, forKey: .error) {
            outcome = .failure(failure)
        } else {
            outcome = .success(try container.decode(Value.self, forKey: .result))
        }
    }

    package init(decoding bytes: [UInt8]) throws {
        self = try JSONDecoder().decode(Self.self, from: Data(bytes))
    }
}
