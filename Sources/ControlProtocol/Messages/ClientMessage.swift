// SPDX-License-Identifier: Apache-2.0
import FoundationEssentials

/// What a reply refers to: whatever number or text the request carried.
package enum MessageID: Hashable, Sendable, Codable {
    case number(Int64)
    case text(String)

    package init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        do {
            self = .number(try container.decode(Int64.self))
        } catch {
            // A fraction is no text either, and fails here for good.
            let text = try container.decode(String.self)
            // It is remembered as long as the request is served.
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

/// One message as it came in, its kind decided.
package enum ClientMessage: Sendable {
    case request(MessageID, Result<ClientRequest, ProtocolFailure>)
    /// Nil for one that means nothing to us.
    case notification(Result<ClientNotification?, ProtocolFailure>)
    case answer(ClientAnswer)
}

/// A client's answer to what it was asked.
package struct ClientAnswer: Hashable, Sendable {
    /// Nil if it does not say to what.
    package let id: MessageID?
    /// What it says went wrong, shortened; nil if nothing did.
    package let refusal: String?
    /// What its program calls that.
    package let origin: OriginForm?

    package init(to id: MessageID?, refusal: String? = nil, origin: OriginForm? = nil) {
        self.id = id
        self.refusal = refusal
        self.origin = origin
    }
}

extension ClientMessage: Decodable {
    private enum Key: String, CodingKey { case jsonrpc, id, method, params, result, error }

    /// Never fails with anything but the failure to be sent back.
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

    /// An answer is never answered, so whatever is wrong with it must not matter.
    private static func answer(in container: KeyedDecodingContainer<Key>) -> ClientAnswer {
        let id: MessageID?
        do {
            id = try container.decodeIfPresent(MessageID.self, forKey: .id)
        } catch {
            // Then it belongs to nothing.
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

/// What is sent back for a request.
package struct ReplyMessage: Sendable {
    private let id: MessageID?
    private let outcome: Result<Response, ProtocolFailure>

    /// An `id` of nil stands for a request that could not be read far enough to find its own.
    package init(to id: MessageID?, _ outcome: Result<Response, ProtocolFailure>) {
        self.id = id
        self.outcome = outcome
    }

    /// One line of JSON, without its end.
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
