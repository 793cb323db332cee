// SPDX-License-Identifier: Apache-2.0
import FoundationEssentials

/// The id of a request, which its reply repeats: a number or a text.
package enum MessageID: Hashable, Sendable, Codable {
    case number(Int64)
    case text(String)

    package init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        do {
            self = .number(try container.decode(Int64.self))
        } catch {
            // A fraction is no text either, and fails here.
            let text = try container.decode(String.self)
            // The id takes memory as long as the request is served.
            guard text.utf8.count <= ProtocolLimits.idBytes else {
                throw ProtocolFailure.invalidRequest("an 'id' has at most \(ProtocolLimits.idBytes) bytes")
            }
            self = .text(text)
        }
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .number(let number): try container.encode(number)
        case .text(let text): try container.encode(text)
        }
    }
}

/// A message from a client, by its kind.
package enum ClientMessage: Sendable {
    case request(MessageID, Result<ClientRequest, ProtocolFailure>)
    /// Nil for an unknown notification.
    case notification(Result<ClientNotification?, ProtocolFailure>)
    case answer(ClientAnswer)
}

/// A client's answer to a request of the server.
package struct ClientAnswer: Hashable, Sendable {
    /// Nil if the answer has no id.
    package let id: MessageID?
    /// The client's error message, shortened; nil without an error.
    package let refusal: String?
    /// The error as the client's program knows it.
    package let origin: OriginForm?

    package init(to id: MessageID?, refusal: String? = nil, origin: OriginForm? = nil) {
        self.id = id
        self.refusal = refusal
        self.origin = origin
    }
}

extension ClientMessage: Decodable {
    private enum Key: String, CodingKey { case jsonrpc, id, method, params, result, error }

    /// Decodes a message; the failure it throws is to be sent to the client.
    package init(decoding bytes: [UInt8]) throws(ProtocolFailure) {
        try JSONCodec.check(bytes)
        try JSONCodec.checkShape(bytes)
        do {
            self = try JSONDecoder().decode(ClientMessage.self, from: Data(bytes))
        } catch let failure as ProtocolFailure {
            throw failure
        } catch DecodingError.dataCorrupted {
            throw .notJSON()
        } catch {
            throw .invalidRequest("a message is an object with 'jsonrpc': \"2.0\" and a text 'method'")
        }
    }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: Key.self)
        guard try container.decode(String.self, forKey: .jsonrpc) == "2.0" else {
            throw ProtocolFailure.invalidRequest("'jsonrpc' must be \"2.0\"")
        }
        if !container.contains(.method), container.contains(.result) || container.contains(.error) {
            self = .answer(Self.answer(in: container))
            return
        }
        let method = try container.decode(String.self, forKey: .method)
        guard method.utf8.count <= ProtocolLimits.nameBytes else {
            throw ProtocolFailure.invalidRequest("a 'method' has at most \(ProtocolLimits.nameBytes) bytes")
        }
        let parameters = container.contains(.params) ? try container.superDecoder(forKey: .params) : nil
        if container.contains(.id) {
            let id = try container.decode(MessageID.self, forKey: .id)
            self = .request(id, ClientRequest.decode(method: method, parameters: parameters))
        } else {
            self = .notification(ClientNotification.decode(method: method, parameters: parameters))
        }
    }

    /// Decodes an answer. Errors in it must not matter, because an answer is never replied to.
    private static func answer(in container: KeyedDecodingContainer<Key>) -> ClientAnswer {
        let id: MessageID?
        do {
            id = try container.decodeIfPresent(MessageID.self, forKey: .id)
        } catch {
            // The answer then belongs to no question.
            id = nil
        }
        do {
            let failure = try container.decodeIfPresent(ProtocolFailure.self, forKey: .error)
            return ClientAnswer(
                to: id, refusal: failure?.message.excerpt, origin: failure?.data?.origin?.excerpt)
        } catch {
            return ClientAnswer(to: id, refusal: "")
        }
    }
}

/// The reply to a request.
package struct ReplyMessage: Sendable {
    private let id: MessageID?
    private let outcome: Result<Response, ProtocolFailure>

    /// Makes a reply; an `id` of nil stands for an id that could not be read.
    package init(to id: MessageID?, _ outcome: Result<Response, ProtocolFailure>) {
        self.id = id
        self.outcome = outcome
    }

    /// The reply as one line of JSON, without the line break.
    package func encoded() throws -> [UInt8] { try JSONCodec.encode(self) }
}

extension ReplyMessage: Encodable {
    private enum Key: String, CodingKey { case jsonrpc, id, result, error }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        try container.encode("2.0", forKey: .jsonrpc)
        if let id { try container.encode(id, forKey: .id) } else { try container.encodeNil(forKey: .id) }
        switch outcome {
        case .success(let response): try container.encode(response, forKey: .result)
        case .failure(let failure): try container.encode(failure, forKey: .error)
        }
    }
}
