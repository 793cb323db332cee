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
            self = .text(try container.decode(String.self))
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

/// A JSON-RPC error object.
package struct Failure: Error, Hashable, Sendable, Codable {
    package var code: Int
    package var message: String

    package init(code: Int, message: String) {
        self.code = code
        self.message = message
    }

    package static func notJSON() -> Failure { Failure(code: -32700, message: "this is not JSON") }
    package static func invalidRequest(_ why: String) -> Failure { Failure(code: -32600, message: why) }
    package static func unknownMethod(_ method: String) -> Failure {
        Failure(code: -32601, message: "there is no method '\(String(method.unicodeScalars.prefix(100)))'")
    }
    package static func invalidParameters(_ why: String) -> Failure { Failure(code: -32602, message: why) }
    package static func internalError(_ why: String) -> Failure { Failure(code: -32603, message: why) }
    /// The Language Server Protocol's code for a request before `initialize`.
    package static let notInitialized = Failure(code: -32002, message: "send 'initialize' first")
    package static func denied(_ why: String) -> Failure { Failure(code: -32001, message: why) }
    package static func unsupportedVersion() -> Failure {
        Failure(code: -32003, message: "this server speaks protocol \(ProtocolLimits.version) only")
    }
    package static func notFound(_ why: String) -> Failure { Failure(code: -32004, message: why) }
    package static func tooMany(_ why: String) -> Failure { Failure(code: -32005, message: why) }
}

/// One message as it came in, its kind decided and its parameters not yet looked at.
package struct Envelope: Sendable {
    package enum Kind: Sendable {
        case request(MessageID)
        case notification
        /// An answer, to nothing we asked.
        case response
    }

    package let kind: Kind
    package let request: Result<Request, Failure>
}

extension Envelope: Decodable {
    private enum Key: String, CodingKey { case jsonrpc, id, method, params, result, error }

    /// Never fails with anything but the failure to be sent back.
    package init(decoding bytes: [UInt8]) throws(Failure) {
        do {
            self = try JSONDecoder().decode(Envelope.self, from: Data(bytes))
        } catch let failure as Failure {
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
            throw Failure.invalidRequest("'jsonrpc' must be \"2.0\"")
        }
        if !container.contains(.method), container.contains(.result) || container.contains(.error) {
            self.init(kind: .response, request: .failure(.invalidRequest("nothing was asked")))
            return
        }
        let method = try container.decode(String.self, forKey: .method)
        let id = container.contains(.id) ? try container.decode(MessageID.self, forKey: .id) : nil
        let parameters = container.contains(.params) ? try container.superDecoder(forKey: .params) : nil
        self.init(
            kind: id.map { .request($0) } ?? .notification,
            request: Request.decode(method: method, parameters: parameters))
    }
}

/// What is sent back for a request.
package struct Reply: Sendable {
    private let id: MessageID?
    private let outcome: Result<Response, Failure>

    /// An `id` of nil stands for a request that could not be read far enough to find its own.
    package init(to id: MessageID?, _ outcome: Result<Response, Failure>) {
        self.id = id
        self.outcome = outcome
    }

    /// One line of JSON, without its end.
    package func encoded() throws -> [UInt8] { try JSONForm.encode(self) }
}

extension Reply: Encodable {
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

/// The one way JSON is written: keys in a fixed order, one line.
package enum JSONForm {
    package static func encode(_ value: some Encodable) throws -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return Array(try encoder.encode(value))
    }
}
