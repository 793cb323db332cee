// SPDX-License-Identifier: Apache-2.0
package import Coordination

extension Access {
    /// The name of the access in the protocol: `read`, or the write option.
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

    package static let allNames = ["read"] + WritingOption.allCases.map(\.rawValue)

    /// The names of all accesses in quotation marks, for an error message.
    static let names = allNames.map { "'\($0)'" }.joined(separator: ", ")
}

/// The names of the options of a read in the protocol.
extension ReadingOptions {
    private static let named: [(name: String, option: ReadingOptions)] = [
        ("withoutChanges", .withoutChanges),
        ("resolvesSymbolicLink", .resolvesSymbolicLink),
        ("immediatelyAvailableMetadataOnly", .immediatelyAvailableMetadataOnly),
        ("forUploading", .forUploading),
    ]

    /// The names of these options, always in the same order.
    package var names: [String] { Self.named.filter { contains($0.option) }.map(\.name) }

    package static var allNames: [String] { named.map(\.name) }

    package init(names: [String]) throws(ProtocolFailure) {
        self = []
        for name in names {
            guard let option = Self.named.first(where: { $0.name == name })?.option else {
                throw .invalidParameters(
                    "there is no option '\(name.excerpt)'; there are "
                        + Self.allNames.map { "'\($0)'" }.joined(separator: ", "))
            }
            insert(option)
        }
    }
}

/// One intent of an access: the path of an item, and how the client will read or write the item.
package struct IntentForm: Hashable, Sendable, Codable {
    private enum Key: String, CodingKey { case access, options, ifGeneration }

    package var path: PathForm
    package var access: Access
    /// The generation that the item must still have when a write is granted. Otherwise the access fails. Nil for every
    /// generation, and for every read.
    package var ifGeneration: String?

    package init(_ path: [UInt8], _ access: Access, ifGeneration: String? = nil) {
        self.path = PathForm(path)
        self.access = access
        self.ifGeneration = ifGeneration
    }

    package init(from decoder: any Decoder) throws {
        path = try PathForm(required: decoder)
        let container = try decoder.container(keyedBy: Key.self)
        let name = try container.decode(String.self, forKey: .access)
        guard let access = Access(name: name) else {
            throw ProtocolFailure.invalidParameters(
                "there is no access '\(name.excerpt)'; there are \(Access.names)")
        }
        let options = try container.decodeIfPresent([String].self, forKey: .options) ?? []
        switch access {
        case .read:
            self.access = .read(try ReadingOptions(names: options))
            if container.contains(.ifGeneration), try !container.decodeNil(forKey: .ifGeneration) {
                throw ProtocolFailure.invalidParameters("'ifGeneration' is for writes; a read has none")
            }
        case .write:
            guard options.isEmpty else {
                throw ProtocolFailure.invalidParameters(
                    "'options' are those of reads; a write has its one option as its 'access'")
            }
            self.access = access
            ifGeneration = try container.decodeIfPresent(String.self, forKey: .ifGeneration)?
                .checkedGeneration()
        }
    }

    package func encode(to encoder: any Encoder) throws {
        try path.encode(to: encoder)
        var container = encoder.container(keyedBy: Key.self)
        try container.encode(access.name, forKey: .access)
        if case .read(let options) = access, !options.isEmpty {
            try container.encode(options.names, forKey: .options)
        }
        try container.encodeIfPresent(ifGeneration, forKey: .ifGeneration)
    }

    /// Checks the path of an intent in a client's request.
    ///
    /// A path in a reply is not checked, because it can exceed the limit: a directory on the path can have moved into other
    /// directories.
    func checkedBelowRoot() throws(ProtocolFailure) -> IntentForm {
        var checked = self
        checked.path = try path.checkedBelowRoot()
        return checked
    }
}

/// The parameters of `access/begin` and `access/prepare`.
package struct AccessBeginParameters: Hashable, Sendable, Codable {
    /// The purpose or presenter that an access belongs to. Accesses with the same identity do not wait for each other.
    package enum Identity: Hashable, Sendable {
        case purpose(String)
        case presenter(UInt64)
    }

    private enum Key: String, CodingKey { case intents, purpose, presenter, within, answering, onBehalfOf }

    /// The intents of the access, from 1 to ``ProtocolLimits/intents``. All of them are granted at the same time.
    package var intents: [IntentForm]
    /// The identity of the access; nil if no other access has the same identity.
    package var identity: Identity?
    /// The numbers of accesses that this connection holds and ends only after this access.
    package var within: [UInt64] = []
    /// A question to a presenter of this connection. The client answers it only after the end of this access.
    package var answering: MessageID?
    /// The process for which the client makes the access; nil if the access is for the client itself.
    package var onBehalfOf: ProcessForm?

    package init(_ intents: [IntentForm], as identity: Identity? = nil) {
        self.intents = intents
        self.identity = identity
    }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: Key.self)
        intents = try container.decode([IntentForm].self, forKey: .intents).map { try $0.checkedBelowRoot() }
        guard (1...ProtocolLimits.intents).contains(intents.count) else {
            throw ProtocolFailure.invalidParameters(
                "'intents' has from 1 to \(ProtocolLimits.intents) intents")
        }
        guard intents.reduce(0, { $0 + ($1.path.bytes?.count ?? 0) }) <= ProtocolLimits.accessPathBytes else {
            throw ProtocolFailure.invalidParameters(
                "the paths of an access have at most \(ProtocolLimits.accessPathBytes) bytes together; "
                    + "begin more than one access")
        }
        let purpose = try container.decodeIfPresent(String.self, forKey: .purpose)?.checkedPurpose()
        let presenter = try container.decodeIfPresent(UInt64.self, forKey: .presenter)
        switch (purpose, presenter) {
        case (nil, nil): identity = nil
        case (let purpose?, nil): identity = .purpose(purpose)
        case (nil, let presenter?): identity = .presenter(presenter)
        case (_?, _?): throw ProtocolFailure.invalidParameters("give 'purpose' or 'presenter', not both")
        }
        within = try container.decodeIfPresent([UInt64].self, forKey: .within) ?? []
        guard within.count <= ProtocolLimits.intents else {
            throw ProtocolFailure.invalidParameters("'within' has at most \(ProtocolLimits.intents) accesses")
        }
        do {
            answering = try container.decodeIfPresent(MessageID.self, forKey: .answering)
        } catch let failure as ProtocolFailure {
            // The error is changed to one about parameters. The request itself is valid; only its member `answering` is wrong.
            throw ProtocolFailure.invalidParameters("in 'answering': \(failure.message)")
        }
        onBehalfOf = try container.decodeIfPresent(ProcessForm.self, forKey: .onBehalfOf)
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        try container.encode(intents, forKey: .intents)
        switch identity {
        case nil: break
        case .purpose(let purpose): try container.encode(purpose, forKey: .purpose)
        case .presenter(let presenter): try container.encode(presenter, forKey: .presenter)
        }
        if !within.isEmpty { try container.encode(within, forKey: .within) }
        try container.encodeIfPresent(answering, forKey: .answering)
        try container.encodeIfPresent(onBehalfOf, forKey: .onBehalfOf)
    }

    /// Throws for intents that `access/prepare` does not allow: a read that follows a symbolic link, and a write that replaces
    /// the item.
    func checkedForPreparing() throws(ProtocolFailure) -> Self {
        for intent in intents {
            switch intent.access {
            case .read(let options) where options.contains(.resolvesSymbolicLink):
                throw .invalidParameters(
                    "'resolvesSymbolicLink' cannot be prepared; prepare what it leads to")
            case .write(.forReplacing):
                throw .invalidParameters("'forReplacing' cannot be prepared")
            default: break
            }
            guard intent.ifGeneration == nil else {
                throw .invalidParameters(
                    "'ifGeneration' cannot be prepared, because a preparation locks nothing")
            }
        }
        return self
    }
}

extension String {
    /// Throws if the text is too short or too long to be the name of a purpose.
    func checkedPurpose() throws(ProtocolFailure) -> String {
        guard (1...ProtocolLimits.purposeBytes).contains(utf8.count) else {
            throw .invalidParameters("'purpose' has from 1 to \(ProtocolLimits.purposeBytes) bytes of text")
        }
        return self
    }
}

/// A process, given by its process id and its start time. The id alone is not enough: after the process ends, another process
/// can get the same id.
package struct ProcessForm: Hashable, Sendable, Codable {
    package var pid: Int32
    /// The start time in clock ticks since boot, as in field 22 of `/proc/PID/stat`. Nil if the client knows that the process
    /// still runs.
    package var started: UInt64?

    package init(pid: Int32, started: UInt64? = nil) {
        self.pid = pid
        self.started = started
    }
}

package struct AccessBeginResult: Hashable, Sendable, Codable {
    package var access: UInt64
    /// The intents in the order of the request, with the paths that their items have when the access begins.
    ///
    /// A path differs from the request if the item moved while the access waited, or if a symbolic link was followed.
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

/// The parameters of `access/willMove` and `access/didMove`.
package struct MoveParameters: Hashable, Sendable, Codable {
    private enum Key: String, CodingKey { case access, newPath, newPathBytes }

    package var access: UInt64
    package var path: PathForm
    package var newPath: PathForm

    package init(access: UInt64, from path: [UInt8], to newPath: [UInt8]) {
        self.access = access
        self.path = PathForm(path)
        self.newPath = PathForm(newPath)
    }

    package init(from decoder: any Decoder) throws {
        path = try PathForm(required: decoder).checkedBelowRoot()
        let container = try decoder.container(keyedBy: Key.self)
        access = try container.decode(UInt64.self, forKey: .access)
        let text = try container.decodeIfPresent(String.self, forKey: .newPath)
        let bytes = try container.decodeIfPresent(String.self, forKey: .newPathBytes)
        guard text != nil || bytes != nil else {
            throw ProtocolFailure.invalidParameters("'newPath' or 'newPathBytes' is missing")
        }
        newPath = try PathForm(text ?? "", bytes).checkedBelowRoot()
    }

    package func encode(to encoder: any Encoder) throws {
        try path.encode(to: encoder)
        var container = encoder.container(keyedBy: Key.self)
        try container.encode(access, forKey: .access)
        try container.encode(newPath.path, forKey: .newPath)
        try container.encodeIfPresent(newPath.pathBytes, forKey: .newPathBytes)
    }
}

/// A result without members: `{}`.
package struct EmptyResult: Hashable, Sendable, Codable {
    package init() {}
}
