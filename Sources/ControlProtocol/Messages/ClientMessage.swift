// SPDX-License-Identifier: Apache-2.0
import FoundationEssentials

/// The id of a request: a number or a text. The reply contains the same id.
package enum MessageID: Hashable, Sendable, Codable {
    case number(Int64)
    case text(String)

    package init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        do {
            self = .number(try container.decode(Int64.self))
        } catch {
            // If the id is a fraction, the attempt to decode it as a text throws.
            let text = try container.decode(String.self)
            // The length of an id is limited, because the daemon stores the id until it has answered the request.
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

/// A message that the daemon has received from a client, by the kind of message.
package enum ClientMessage: Sendable {
    case request(MessageID, Result<ClientRequest, ProtocolFailure>)
    /// A notification; nil if its method is unknown.
    case notification(Result<ClientNotification?, ProtocolFailure>)
    case answer(ClientAnswer)
}

/// A client's answer to a question of the daemon.
package struct ClientAnswer: Hashable, Sendable {
    /// The id of the question; nil if the answer has no valid id.
    package let id: MessageID?
    /// The message of the error with which the client refuses, shortened; nil if the client agrees.
    package let refusal: String?
    /// The error that occurred inside the client's program, if the client sent it.
    package let origin: OriginForm?

    package init(to id: MessageID?, refusal: String? = nil, origin: OriginForm? = nil) {
        self.id = id
        self.refusal = refusal
        self.origin = origin
    }
}

extension ClientMessage: Decodable {
    private enum Key: String, CodingKey { case jsonrpc, id, method, params, result, error }

    /// Decodes a message of a client. If this throws, the caller sends the thrown failure to the client.
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

    /// Decodes an answer. It throws no error, because the daemon cannot reply to an answer. An answer with an invalid error
    /// counts as a refusal.
    private static func answer(in container: KeyedDecodingContainer<Key>) -> ClientAnswer {
        let id: MessageID?
        do {
            id = try container.decodeIfPresent(MessageID.self, forKey: .id)
        } catch {
            // Without a valid id, the answer belongs to no question.
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

/// The reply to a request of a client.
package struct ReplyMessage: Sendable {
    private let id: MessageID?
    private let outcome: Result<Response, ProtocolFailure>

    /// Makes a reply. `id` is nil if the id of the client's message could not be decoded.
    package init(to id: MessageID?, _ outcome: Result<Response, ProtocolFailure>) {
        self.id = id
        self.outcome = outcome
    }

    /// Encodes the reply as one line of JSON, without a line break at the end.
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
