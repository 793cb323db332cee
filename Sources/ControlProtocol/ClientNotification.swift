// SPDX-License-Identifier: Apache-2.0

/// What a client tells without wanting an answer.
package enum ClientNotification: Hashable, Sendable {
    /// It is at work on a request that it owes an answer to.
    case progress(MessageID)
    /// Its own request, by the id it gave it, is not wanted any more.
    case cancel(MessageID)

    private struct Parameters: Codable {
        var id: MessageID
    }

    /// Nil for a notification that means nothing to us: it is ignored, as JSON-RPC demands.
    static func decode(
        method: String, parameters: (any Decoder)?
    ) -> Result<ClientNotification?, Failure> {
        let make: (MessageID) -> ClientNotification
        switch Method(rawValue: method) {
        case .progress: make = { .progress($0) }
        case .cancel: make = { .cancel($0) }
        case nil: return .success(nil)
        }
        do {
            guard let parameters else { return .failure(.invalidParameters("'\(method)' needs 'id'")) }
            return .success(make(try Parameters(from: parameters).id))
        } catch {
            return .failure(.invalidParameters("the 'id' of '\(method)' is a number or a text"))
        }
    }

    func encode<Key>(into container: inout KeyedEncodingContainer<Key>, forKey key: Key) throws {
        switch self {
        case .progress(let id), .cancel(let id): try container.encode(Parameters(id: id), forKey: key)
        }
    }
}
