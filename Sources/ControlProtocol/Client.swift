// SPDX-License-Identifier: Apache-2.0
import FoundationEssentials

/// The client's half of the codec.
package struct RequestMessage: Sendable, Encodable {
    private enum Key: String, CodingKey { case jsonrpc, id, method, params }

    package let id: MessageID
    package let request: Request

    package init(id: MessageID, _ request: Request) {
        self.id = id
        self.request = request
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        try container.encode("2.0", forKey: .jsonrpc)
        try container.encode(id, forKey: .id)
        try container.encode(request.method, forKey: .method)
        switch request {
        case .initialize(let parameters): try container.encode(parameters, forKey: .params)
        case .status: break
        case .keptList(let parameters): try container.encode(parameters, forKey: .params)
        case .keptRead(let parameters): try container.encode(parameters, forKey: .params)
        }
    }
}

/// A reply whose result is of the type that the request asked for.
package struct ResponseMessage<Value: Decodable>: Decodable {
    private enum Key: String, CodingKey { case id, result, error }

    package let id: MessageID?
    package let outcome: Result<Value, Failure>

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: Key.self)
        id = try container.decodeIfPresent(MessageID.self, forKey: .id)
        if let failure = try container.decodeIfPresent(Failure.self, forKey: .error) {
            outcome = .failure(failure)
        } else {
            outcome = .success(try container.decode(Value.self, forKey: .result))
        }
    }

    package init(decoding bytes: [UInt8]) throws {
        self = try JSONDecoder().decode(Self.self, from: Data(bytes))
    }
}
