// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// The names of presenters' messages in the protocol. They are the raw values of the cases of requests and notices.
extension PresenterMessages {
    private static let named: [(name: String, message: PresenterMessages)] =
        PresenterRequest.allCases.map { ($0.rawValue, PresenterMessages($0)) }
        + PresenterNotice.allCases.map { ($0.rawValue, PresenterMessages($0)) }

    /// The names of these messages, always in the same order, with requests before notices.
    package var names: [String] { Self.named.filter { contains($0.message) }.map(\.name) }

    package init(names: [String]) throws(ProtocolFailure) {
        self = []
        for name in names {
            guard let message = Self.named.first(where: { $0.name == name })?.message else {
                throw .invalidParameters(
                    "there is no message '\(name.excerpt)'; there are "
                        + Self.named.map { "'\($0.name)'" }.joined(separator: ", "))
            }
            insert(message)
        }
    }
}

package struct RegisterParameters: Hashable, Sendable, Codable {
    private enum Key: String, CodingKey { case messages, purpose, serverProcess }

    package var path: PathForm
    /// The messages that the client can handle for this presenter.
    package var messages: PresenterMessages
    /// The purpose of the presenter. Accesses with the same purpose cause no questions or notices to the presenter. If
    /// it is nil, an access has the same purpose only if the client begins the access with the presenter's number.
    package var purpose: String?
    /// Another process that writes the files for the client, such as an editor's server. Accesses of that process are treated
    /// as accesses of the client.
    package var serverProcess: ProcessForm?

    package init(
        path: [UInt8], messages: PresenterMessages, purpose: String? = nil, savedBy server: ProcessForm? = nil
    ) {
        serverProcess = server
        self.path = PathForm(path)
        self.messages = messages
        self.purpose = purpose
    }

    package init(from decoder: any Decoder) throws {
        path = try PathForm(required: decoder).checkedBelowRoot()
        let container = try decoder.container(keyedBy: Key.self)
        messages = try PresenterMessages(names: try container.decode([String].self, forKey: .messages))
        purpose = try container.decodeIfPresent(String.self, forKey: .purpose)?.checkedPurpose()
        serverProcess = try container.decodeIfPresent(ProcessForm.self, forKey: .serverProcess)
    }

    package func encode(to encoder: any Encoder) throws {
        try path.encode(to: encoder)
        var container = encoder.container(keyedBy: Key.self)
        try container.encode(messages.names, forKey: .messages)
        try container.encodeIfPresent(purpose, forKey: .purpose)
        try container.encodeIfPresent(serverProcess, forKey: .serverProcess)
    }
}

package struct RegisterResult: Hashable, Sendable, Codable {
    package var presenter: UInt64
    package var path: String
    package var pathBytes: String?
    /// Those messages of the registration that the presenter will be sent.
    ///
    /// They can be fewer than the client asked for: a user without the right to write an item is asked no questions about it.
    package var messages: [String]
    /// Whether the item is a package: a directory that users see as a single document.
    package var isPackage: Bool

    package init(
        presenter: UInt64, path: [UInt8], messages: PresenterMessages, isPackage: Bool = false
    ) {
        self.presenter = presenter
        (self.path, self.pathBytes) = PathForm(path).parts
        self.messages = messages.names
        self.isPackage = isPackage
    }
}

package struct RemoveParameters: Hashable, Sendable, Codable {
    package var presenter: UInt64
    package init(presenter: UInt64) { self.presenter = presenter }
}

/// The parameters of `why`: the path of the item that the client asks about.
package struct WhyParameters: Hashable, Sendable, Codable {
    package var path: PathForm

    package init(path: [UInt8]) { self.path = PathForm(path) }

    package init(from decoder: any Decoder) throws {
        path = try PathForm(required: decoder).checkedBelowRoot()
    }
    package func encode(to encoder: any Encoder) throws { try path.encode(to: encoder) }
}
