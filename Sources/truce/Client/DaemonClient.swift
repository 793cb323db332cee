// SPDX-License-Identifier: Apache-2.0
import ControlClient
import ControlProtocol
import LinuxSystem

let protocolVersion = ProtocolLimits.version

/// A connection to the daemon of a mount. Each call waits for the daemon's reply.
struct DaemonClient: ~Copyable {
    let peer: PeerCredentials
    let server: InitializeResult
    private var wire: ControlWire

    /// Connects to the daemon of a mount. Checks with the kernel that the mount is one of Truce, and that the daemon
    /// runs as root or as the caller.
    init(to mount: MountEntry) throws(CommandFailure) {
        let connection = try MountSocket(to: mount)
        let peer = connection.peer
        var wire = ControlWire(over: connection.release())
        server = try wire.call(
            .initialize(InitializeParameters(client: "truce", version: Truce.version)))
        self.peer = peer
        self.wire = wire
    }

    /// Gives up this object, and returns its connection to a command that sends other kinds of messages.
    consuming func release() -> ControlWire { wire }

    mutating func call<Value: Decodable>(_ request: ClientRequest) throws(CommandFailure) -> Value {
        try wire.call(request)
    }

    /// Sends a request whose reply can take long. Waits as long as the mount's daemon answers other requests.
    mutating func callPatiently<Value: Decodable>(
        _ request: ClientRequest, in mount: MountEntry
    ) throws(CommandFailure) -> Value {
        try wire.callPatiently(request, in: mount)
    }

    mutating func status() throws(CommandFailure) -> StatusForm { try wire.call(.status) }

    mutating func why(_ path: [UInt8]) throws(CommandFailure) -> CoordinationSnapshotForm {
        try wire.call(.why(WhyParameters(path: path)))
    }

    mutating func generation(_ path: [UInt8]) throws(CommandFailure) -> GenerationResult {
        try wire.call(.generation(GenerationParameters(path: path)))
    }

    mutating func snapshot() throws(CommandFailure) -> CoordinationSnapshotForm { try wire.call(.ps) }

    mutating func versions(_ parameters: VersionListParameters) throws(CommandFailure) -> VersionListResult {
        try wire.call(.listVersions(parameters))
    }

    /// Reads a part of a version that was preserved from `path` or from a file below `path`.
    private mutating func read(
        _ id: String, of path: [UInt8], at offset: Int64
    ) throws(CommandFailure) -> VersionReadResult {
        try wire.call(
            .readVersion(
                VersionReadParameters(id: id, offset: offset, length: ProtocolLimits.readBytes, of: path)))
    }

    /// Reads a version in pieces, and calls `handOn` with each piece.
    ///
    /// Fails if the version was not preserved from `path` or from a file below `path`.
    mutating func fetch(
        _ id: String, of path: [UInt8], _ handOn: ([UInt8]) throws(CommandFailure) -> Void
    ) throws(CommandFailure) {
        var offset: Int64 = 0
        while true {
            let piece = try read(id, of: path, at: offset)
            guard let bytes = piece.bytes else {
                throw CommandFailure(.failed, "the daemon sent contents that are not base64")
            }
            try handOn(bytes)
            offset += Int64(bytes.count)
            if piece.isAtEnd { return }
        }
    }

    mutating func resolve(_ ids: [String]?, of path: [UInt8]) throws(CommandFailure) -> VersionChangeResult {
        try wire.call(.resolveVersions(VersionSelectionParameters(path: path, ids: ids)))
    }

    mutating func remove(_ ids: [String], of path: [UInt8]) throws(CommandFailure) -> VersionChangeResult {
        try wire.call(.removeVersions(VersionSelectionParameters(path: path, ids: ids)))
    }

    mutating func prune(_ path: [UInt8], until time: Double?) throws(CommandFailure) -> VersionChangeResult {
        try wire.call(.pruneVersions(VersionPruneParameters(path: path, until: time)))
    }
}
