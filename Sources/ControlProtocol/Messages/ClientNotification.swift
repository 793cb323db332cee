// SPDX-License-Identifier: Apache-2.0

/// A notification of a client, which gets no reply.
package enum ClientNotification: Hashable, Sendable {
    /// The client still works on the question with this id, which the client has not answered yet.
    case progress(MessageID)
    /// A presenter of the client has unsaved changes from now on, or has none any more.
    case unsaved(UnsavedParameters)
    /// The client withdraws its own earlier request with this id.
    case cancel(MessageID)

    private struct Parameters: Codable {
        var id: MessageID
    }

    /// Decodes a notification. The result is nil for an unknown method, which the daemon must ignore by the rules of JSON-RPC.
    static func decode(
        method: String, parameters: (any Decoder)?
    ) -> Result<ClientNotification?, ProtocolFailure> {
        switch Method(rawValue: method) {
        case .progress: decode(method, parameters) { .progress($0) }
        case .cancel: decode(method, parameters) { .cancel($0) }
        case .unsaved: decodeUnsaved(method, parameters)
        case nil: .success(nil)
        }
    }

    private static func decode(
        _ method: String, _ parameters: (any Decoder)?, _ make: (MessageID) -> ClientNotification
    ) -> Result<ClientNotification?, ProtocolFailure> {
        do {
            guard let parameters else { return .failure(.invalidParameters("'\(method)' needs 'id'")) }
            return .success(make(try Parameters(from: parameters).id))
        } catch {
            return .failure(.invalidParameters("the 'id' of '\(method)' is a number or a text"))
        }
    }

    private static func decodeUnsaved(
        _ method: String, _ parameters: (any Decoder)?
    ) -> Result<ClientNotification?, ProtocolFailure> {
        do {
            guard let parameters else {
                return .failure(.invalidParameters("'\(method)' needs 'presenter' and 'isUnsaved'"))
            }
            return .success(.unsaved(try UnsavedParameters(from: parameters)))
        } catch {
            return .failure(
                .invalidParameters(
                    "'\(method)' needs 'presenter', the number of a presenter, and 'isUnsaved', true or false"
                ))
        }
    }

    func encode<Key>(into container: inout KeyedEncodingContainer<Key>, forKey key: Key) throws {
        switch self {
        case .progress(let id), .cancel(let id): try container.encode(Parameters(id: id), forKey: key)
        case .unsaved(let parameters): try container.encode(parameters, forKey: key)
        }
    }
}

/// The parameters of `presenter/unsaved`: whether a presenter has unsaved changes.
package struct UnsavedParameters: Hashable, Sendable, Codable {
    package var presenter: UInt64
    package var isUnsaved: Bool

    package init(presenter: UInt64, isUnsaved: Bool) {
        self.presenter = presenter
        self.isUnsaved = isUnsaved
    }
}
