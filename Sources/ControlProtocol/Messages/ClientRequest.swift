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
    case generation(GenerationParameters)
    case listVersions(VersionListParameters)
    case readVersion(VersionReadParameters)
    case preserveVersion(PreserveParameters)
    case beginRun(RunBeginParameters)
    case endRun(RunEndParameters)
    case resolveVersions(VersionSelectionParameters)
    case removeVersions(VersionSelectionParameters)
    case pruneVersions(VersionPruneParameters)
    case listHistory(HistoryListParameters)
    case watchHistory(HistoryWatchParameters)

    static func decode(method: String, parameters: (any Decoder)?) -> Result<ClientRequest, ProtocolFailure> {
        do {
            switch Method(named: method) {
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
            case .generation: return .success(.generation(try required(parameters)))
            case .listVersions:
                return .success(.listVersions(try decode(parameters) ?? VersionListParameters(path: [])))
            case .readVersion: return .success(.readVersion(try required(parameters)))
            case .preserveVersion: return .success(.preserveVersion(try required(parameters)))
            case .beginRun: return .success(.beginRun(try required(parameters)))
            case .endRun: return .success(.endRun(try required(parameters)))
            case .resolveVersions: return .success(.resolveVersions(try required(parameters)))
            case .removeVersions:
                let parameters: VersionSelectionParameters = try required(parameters)
                return .success(.removeVersions(try parameters.checkedForRemoving()))
            case .pruneVersions: return .success(.pruneVersions(try required(parameters)))
            case .listHistory:
                return .success(.listHistory(try decode(parameters) ?? HistoryListParameters()))
            case .watchHistory:
                return .success(.watchHistory(try decode(parameters) ?? HistoryWatchParameters()))
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
    case generation(GenerationResult)
    case listVersions(VersionListResult)
    case readVersion(VersionReadResult)
    case preserveVersion(PreserveResult)
    case beginRun(RunBeginResult)
    /// The result of `versions/resolve`, `versions/remove` and `versions/prune`.
    case changeVersions(VersionChangeResult)
    /// The result of `history/list` and `history/watch`.
    case history(HistoryResult)

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
        case .generation(let result): try result.encode(to: encoder)
        case .listVersions(let result): try result.encode(to: encoder)
        case .readVersion(let result): try result.encode(to: encoder)
        case .preserveVersion(let result): try result.encode(to: encoder)
        case .beginRun(let result): try result.encode(to: encoder)
        case .changeVersions(let result): try result.encode(to: encoder)
        case .history(let result): try result.encode(to: encoder)
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
        "events/subscribe", "why", "ps", "versions/list", "versions/show", "versions/resolve",
        "versions/remove", "versions/prune", "config/show", "generation", "run/begin",
        "history/list", "history/watch",
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
