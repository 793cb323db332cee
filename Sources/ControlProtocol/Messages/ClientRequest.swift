// SPDX-License-Identifier: Apache-2.0
import FoundationEssentials

/// A request of a client, with the parameters of its method.
package enum ClientRequest: Hashable, Sendable {
    case initialize(InitializeParameters)
    case status
    case register(RegisterParameters)
    case remove(RemoveParameters)
    case beginAccess(AccessBeginParameters)
    case prepareAccess(AccessBeginParameters)
    case endAccess(AccessEndParameters)
    case willMove(MoveParameters)
    case didMove(MoveParameters)
    case subscribe(SubscribeParameters)
    case unsubscribe(UnsubscribeParameters)
    case why(WhyParameters)
    case ps
    case showSettings(SettingsParameters)
    case listVersions(VersionListParameters)
    case readVersion(VersionReadParameters)
    case preserveVersion(PreserveParameters)
    case beginRun(RunBeginParameters)
    case endRun(RunEndParameters)

    static func decode(method: String, parameters: (any Decoder)?) -> Result<ClientRequest, ProtocolFailure> {
        do {
            switch Method(rawValue: method) {
            case .initialize: return .success(.initialize(try decode(parameters) ?? InitializeParameters()))
            case .status: return .success(.status)
            case .register: return .success(.register(try required(parameters)))
            case .remove: return .success(.remove(try required(parameters)))
            case .beginAccess: return .success(.beginAccess(try required(parameters)))
            case .prepareAccess:
                let parameters: AccessBeginParameters = try required(parameters)
                return .success(.prepareAccess(try parameters.checkedForPreparing()))
            case .endAccess: return .success(.endAccess(try required(parameters)))
            case .willMove: return .success(.willMove(try required(parameters)))
            case .didMove: return .success(.didMove(try required(parameters)))
            case .subscribe: return .success(.subscribe(try decode(parameters) ?? SubscribeParameters()))
            case .unsubscribe: return .success(.unsubscribe(try required(parameters)))
            case .why: return .success(.why(try required(parameters)))
            case .ps: return .success(.ps)
            case .showSettings: return .success(.showSettings(try required(parameters)))
            case .listVersions:
                return .success(.listVersions(try decode(parameters) ?? VersionListParameters(path: [])))
            case .readVersion: return .success(.readVersion(try required(parameters)))
            case .preserveVersion: return .success(.preserveVersion(try required(parameters)))
            case .beginRun: return .success(.beginRun(try required(parameters)))
            case .endRun: return .success(.endRun(try required(parameters)))
            case nil: return .failure(.unknownMethod(method))
            }
        } catch let failure as ProtocolFailure {
            return .failure(failure)
        } catch {
            return .failure(.invalidParameters(sentence(about: error, in: method)))
        }
    }

    /// Returns an error message about parameters that could not be decoded. If the decoder reports which member is wrong, the
    /// message contains the name of the member.
    private static func sentence(about error: any Error, in method: String) -> String {
        let path: [any CodingKey]
        switch error {
        case DecodingError.keyNotFound(let key, let context):
            return "'\(method)' needs '\(name(of: context.codingPath + [key]))'"
        case DecodingError.typeMismatch(_, let context): path = context.codingPath
        case DecodingError.valueNotFound(_, let context): path = context.codingPath
        case DecodingError.dataCorrupted(let context): path = context.codingPath
        default: path = []
        }
        let name = name(of: path)
        return name.isEmpty
            ? "the parameters of '\(method)' have the wrong form"
            : "'\(name)' of '\(method)' has the wrong form"
    }

    /// The name of a member as users see it, without the leading `params`, for example `intents.0.path`.
    private static func name(of path: [any CodingKey]) -> String {
        path.drop { $0.stringValue == "params" }.map { key in key.intValue.map(String.init) ?? key.stringValue
        }
        .joined(separator: ".").excerpt
    }

    private static func required<Parameters: Decodable>(_ decoder: (any Decoder)?) throws -> Parameters {
        guard let decoder else { throw ProtocolFailure.invalidParameters("'params' is missing") }
        return try Parameters(from: decoder)
    }

    private static func decode<Parameters: Decodable>(_ decoder: (any Decoder)?) throws -> Parameters? {
        try decoder.map { try Parameters(from: $0) }
    }
}

/// The result of a request that succeeded.
package enum Response: Hashable, Sendable, Encodable {
    case initialize(InitializeResult)
    case status(StatusForm)
    case register(RegisterResult)
    /// The result of `access/begin` and `access/prepare`.
    case beginAccess(AccessBeginResult)
    case subscribe(SubscribeResult)
    /// The result of a request that returns no value when it succeeds.
    case done(EmptyResult)
    case snapshot(CoordinationSnapshotForm)
    case showSettings(SettingsResult)
    case listVersions(VersionListResult)
    case readVersion(VersionReadResult)
    case preserveVersion(PreserveResult)
    case beginRun(RunBeginResult)

    package func encode(to encoder: any Encoder) throws {
        switch self {
        case .initialize(let result): try result.encode(to: encoder)
        case .status(let result): try result.encode(to: encoder)
        case .register(let result): try result.encode(to: encoder)
        case .beginAccess(let result): try result.encode(to: encoder)
        case .subscribe(let result): try result.encode(to: encoder)
        case .done(let result): try result.encode(to: encoder)
        case .snapshot(let result): try result.encode(to: encoder)
        case .showSettings(let result): try result.encode(to: encoder)
        case .listVersions(let result): try result.encode(to: encoder)
        case .readVersion(let result): try result.encode(to: encoder)
        case .preserveVersion(let result): try result.encode(to: encoder)
        case .beginRun(let result): try result.encode(to: encoder)
        }
    }
}

package struct InitializeParameters: Hashable, Sendable, Codable {
    package struct Client: Hashable, Sendable, Codable {
        package var name: String?
        package var version: String?

        init(name: String, version: String?) { (self.name, self.version) = (name, version) }

        package init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            let most = ProtocolLimits.clientBytes
            let name = try container.decodeIfPresent(String.self, forKey: .name)
            let version = try container.decodeIfPresent(String.self, forKey: .version)
            self.name = try name?.checked("client.name", most)
            self.version = try version?.checked("client.version", most)
        }
    }
    package struct Versions: Hashable, Sendable, Codable {
        package var min: Int
        package var max: Int
    }

    package var client: Client?
    package var `protocol`: Versions?

    package init(client name: String? = nil, version: String? = nil) {
        client = name.map { Client(name: $0, version: version) }
        `protocol` = Versions(min: ProtocolLimits.version, max: ProtocolLimits.version)
    }

    /// Whether the client accepts the protocol version of this daemon. A client that lists no versions accepts every version.
    package var acceptsOurVersion: Bool {
        guard let versions = `protocol` else { return true }
        return versions.min <= ProtocolLimits.version && ProtocolLimits.version <= versions.max
    }
}

extension String {
    /// Throws if a text is longer than `most` bytes. The daemon holds the text in memory while the request waits.
    func checked(_ name: String, _ most: Int) throws(ProtocolFailure) -> String {
        guard utf8.count <= most else {
            throw .invalidParameters("'\(name)' has at most \(most) bytes")
        }
        return self
    }
}

package struct InitializeResult: Hashable, Sendable, Codable {
    package struct Server: Hashable, Sendable, Codable {
        package var name: String
        package var version: String
        package var pid: Int32
    }
    package struct Limits: Hashable, Sendable, Codable {
        package var messageBytes = ProtocolLimits.messageBytes
        package var outstandingRequests = ProtocolLimits.outstandingRequests
        package var connectionsPerUser = ProtocolLimits.connectionsPerUser
        package var readBytes = ProtocolLimits.readBytes
        // The following limits are nil in a reply of a daemon that has no presenters yet.
        package var presenters: Int? = ProtocolLimits.presenters
        package var accesses: Int? = ProtocolLimits.accesses
        package var intents: Int? = ProtocolLimits.intents
        package var subscriptions: Int? = ProtocolLimits.subscriptions
        package var outboxMessages: Int? = ProtocolLimits.outboxMessages
    }

    package var `protocol` = ProtocolLimits.version
    package var server: Server
    package var mount: MountForm
    package var capabilities = [
        "status", "presenter/register", "presenter/unsaved", "access/begin", "access/prepare",
        "access/willMove", "access/didMove",
        "events/subscribe", "why", "ps", "config/show", "kept/list", "kept/read",
        "run/begin",
    ]
    package var limits = Limits()

    package init(version: String, pid: Int32, mount: MountForm) {
        server = Server(name: "truce", version: version, pid: pid)
        self.mount = mount
    }
}

/// The mount that a control socket belongs to.
package struct MountForm: Hashable, Sendable, Codable {
    package var mountpoint: String
    package var source: String
    package var user: UInt32

    package init(mountpoint: String, source: String, user: UInt32) {
        self.mountpoint = mountpoint
        self.source = source
        self.user = user
    }
}

package struct VersionListParameters: Hashable, Sendable, Codable {
    package var path: PathForm

    /// Makes the parameters for a list of versions. The list contains the versions of items at or below `path`, relative to the
    /// root of the mount. An empty path asks for all versions.
    package init(path: [UInt8]) { self.path = PathForm(path) }

    package init(from decoder: any Decoder) throws { path = try PathForm(from: decoder).checkedBelowRoot() }
    package func encode(to encoder: any Encoder) throws { try path.encode(to: encoder) }
}

package struct VersionListResult: Hashable, Sendable, Codable {
    package var entries: [VersionForm]
    /// Whether versions are missing, because there are more than ``ProtocolLimits/listEntries`` or their entries are too long.
    /// The newest versions are listed.
    package var isTruncated: Bool

    package init(entries: [VersionForm], isTruncated: Bool) {
        self.entries = entries
        self.isTruncated = isTruncated
    }
}

/// The description of one preserved version.
package struct VersionForm: Hashable, Sendable, Codable {
    package var id: String
    package var path: String
    package var pathBytes: String?
    package var cause: String
    /// The time at which the contents were preserved, in seconds since 1970.
    package var time: Double
    package var size: Int64
    package var user: UInt32
    package var group: UInt32
    package var mode: UInt32
    /// The programs that still write to the file of the version; nil if the contents of the version cannot change any more.
    package var writers: [String]?

    package init(
        id: String, path: [UInt8], cause: String, time: Double, size: Int64, user: UInt32, group: UInt32,
        mode: UInt32
    ) {
        self.id = id
        (self.path, self.pathBytes) = PathForm(path).parts
        self.cause = cause
        self.time = time
        self.size = size
        self.user = user
        self.group = group
        self.mode = mode
    }
}

package struct VersionReadParameters: Hashable, Sendable, Codable {
    private enum Key: String, CodingKey { case id, offset, length, path, pathBytes }

    package var id: String
    package var offset: Int64
    package var length: Int
    /// A path at or below which the item of the version must be. Otherwise the request fails. Nil allows every version.
    package var path: PathForm?

    package init(id: String, offset: Int64, length: Int, of path: [UInt8]? = nil) {
        self.id = id
        self.offset = offset
        self.length = length
        self.path = path.map { PathForm($0) }
    }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: Key.self)
        if container.contains(.path) || container.contains(.pathBytes) {
            path = try PathForm(from: decoder).checkedBelowRoot()
        }
        id = try container.decode(String.self, forKey: .id)
        offset = try container.decode(Int64.self, forKey: .offset)
        length = try container.decode(Int.self, forKey: .length)
        guard VersionIDFormat.isValid(id) else {
            throw ProtocolFailure.invalidParameters("'id' is not the ID of a version")
        }
        guard offset >= 0, (1...ProtocolLimits.readBytes).contains(length) else {
            throw ProtocolFailure.invalidParameters(
                "'offset' must not be negative and 'length' be from 1 to \(ProtocolLimits.readBytes)")
        }
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        try container.encode(id, forKey: .id)
        try container.encode(offset, forKey: .offset)
        try container.encode(length, forKey: .length)
        try container.encodeIfPresent(path?.path, forKey: .path)
        try container.encodeIfPresent(path?.pathBytes, forKey: .pathBytes)
    }
}

package struct VersionReadResult: Hashable, Sendable, Codable {
    /// The bytes that were read, in base64.
    package var content: String
    /// Whether the version ends after these bytes.
    package var isAtEnd: Bool

    package init(content: [UInt8], isAtEnd: Bool) {
        self.content = Data(content).base64EncodedString()
        self.isAtEnd = isAtEnd
    }

    /// The bytes that were read; nil if `content` is not base64.
    package var bytes: [UInt8]? { Data(base64Encoded: content).map { Array($0) } }
}

package struct PreserveParameters: Hashable, Sendable, Codable {
    package var path: PathForm

    package init(path: [UInt8]) { self.path = PathForm(path) }

    package init(from decoder: any Decoder) throws {
        path = try PathForm(required: decoder).checkedBelowRoot()
    }
    package func encode(to encoder: any Encoder) throws { try path.encode(to: encoder) }
}

package struct PreserveResult: Hashable, Sendable, Codable {
    /// The ID of the version; nil if the file is empty.
    package var id: String?
    package init(id: String?) { self.id = id }
}

/// The form of a version's ID: sixteen hexadecimal digits. Each ID from a client is checked before it is used in a path of the
/// store.
package enum VersionIDFormat {
    package static func isValid(_ id: String) -> Bool {
        let digits = Array("0123456789abcdef".utf8)
        return id.utf8.count == 16 && id.utf8.allSatisfy(digits.contains)
    }
}
