// SPDX-License-Identifier: Apache-2.0
package import Coordination

extension Access {
    /// As it is called on the wire: `read`, or the write option.
    package var name: String {
        switch self {
        case .read: "read"
        case .write(let option): option.rawValue
        }
    }

    package init?(name: String) {
        if name == "read" {
            self = .read()
        } else {
            guard let option = WritingOption(rawValue: name) else { return nil }
            self = .write(option)
        }
    }

    /// For the sentence that refuses another name.
    static let names = "'read', " + WritingOption.allCases.map { "'\($0.rawValue)'" }.joined(separator: ", ")
}

/// What is to be done with one item.
package struct IntentForm: Hashable, Sendable, Codable {
    private enum Key: String, CodingKey { case path, pathBytes, access }

    package var path: PathForm
    package var access: Access

    package init(_ path: [UInt8], _ access: Access) {
        self.path = PathForm(path)
        self.access = access
    }

    package init(from decoder: any Decoder) throws {
        path = try PathForm(required: decoder).checkedBelowRoot()
        let container = try decoder.container(keyedBy: Key.self)
        let name = try container.decode(String.self, forKey: .access)
        guard let access = Access(name: name) else {
            throw Failure.invalidParameters("there is no access '\(name.excerpt)'; there are \(Access.names)")
        }
        self.access = access
    }

    package func encode(to encoder: any Encoder) throws {
        try path.encode(to: encoder)
        var container = encoder.container(keyedBy: Key.self)
        try container.encode(access.name, forKey: .access)
    }
}

package struct AccessBeginParameters: Hashable, Sendable, Codable {
    /// What exempts an access from others that carry the same.
    package enum Identity: Hashable, Sendable {
        case purpose(String)
        case presenter(UInt64)
    }

    private enum Key: String, CodingKey { case intents, purpose, presenter }

    /// One or two; granted together.
    package var intents: [IntentForm]
    /// Nil: nobody's but its own.
    package var identity: Identity?

    package init(_ intents: [IntentForm], as identity: Identity? = nil) {
        self.intents = intents
        self.identity = identity
    }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: Key.self)
        intents = try container.decode([IntentForm].self, forKey: .intents)
        guard (1...2).contains(intents.count) else {
            throw Failure.invalidParameters("'intents' has one intent or two")
        }
        let purpose = try container.decodeIfPresent(String.self, forKey: .purpose)
        let presenter = try container.decodeIfPresent(UInt64.self, forKey: .presenter)
        switch (purpose, presenter) {
        case (nil, nil): identity = nil
        case (let purpose?, nil):
            guard (1...ProtocolLimits.purposeBytes).contains(purpose.utf8.count) else {
                throw Failure.invalidParameters(
                    "'purpose' has from 1 to \(ProtocolLimits.purposeBytes) bytes of text")
            }
            identity = .purpose(purpose)
        case (nil, let presenter?): identity = .presenter(presenter)
        case (_?, _?): throw Failure.invalidParameters("give 'purpose' or 'presenter', not both")
        }
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        try container.encode(intents, forKey: .intents)
        switch identity {
        case nil: break
        case .purpose(let purpose): try container.encode(purpose, forKey: .purpose)
        case .presenter(let presenter): try container.encode(presenter, forKey: .presenter)
        }
    }
}

package struct AccessBeginResult: Hashable, Sendable, Codable {
    package var access: UInt64
    /// With the paths as they are now: whatever moved while the access waited was followed.
    package var intents: [IntentForm]

    package init(access: UInt64, intents: [IntentForm]) {
        self.access = access
        self.intents = intents
    }
}

package struct AccessEndParameters: Hashable, Sendable, Codable {
    package var access: UInt64
    package init(access: UInt64) { self.access = access }
}

/// The result of a request that has nothing to tell: `{}`.
package struct EmptyResult: Hashable, Sendable, Codable {
    package init() {}
}
