// SPDX-License-Identifier: Apache-2.0
import ControlClient
import ControlProtocol
import LinuxSystem

let protocolVersion = ProtocolLimits.version

/// A blocking connection to the daemon of a mount.
struct DaemonClient: ~Copyable {
    let peer: PeerCredentials
    let server: InitializeResult
    private var wire: ControlWire

    /// Connects to the daemon of a mount. The kernel confirms that the mount is of Truce's type and that the daemon runs as
    /// root or the caller.
    init(to mount: MountEntry) throws(CommandFailure) {
        let connection = try MountSocket(to: mount)
        let peer = connection.peer
        var wire = ControlWire(over: connection.release())
        server = try wire.call(
            .initialize(InitializeParameters(client: "truce", version: Truce.version)))
        self.peer = peer
        self.wire = wire
    }

    /// Returns the connection, for a command that sends further kinds of messages.
    consuming func release() -> ControlWire { wire }

    mutating func status() throws(CommandFailure) -> StatusForm { try wire.call(.status) }

    mutating func why(_ path: [UInt8]) throws(CommandFailure) -> CoordinationSnapshotForm {
        try wire.call(.why(WhyParameters(path: path)))
    }

    mutating func snapshot() throws(CommandFailure) -> CoordinationSnapshotForm { try wire.call(.ps) }

    mutating func kept(under path: [UInt8]) throws(CommandFailure) -> VersionListResult {
        try wire.call(.listVersions(VersionListParameters(path: path)))
    }

    /// Reads a part of a version that was preserved from `path` or from a file below `path`.
    mutating func read(
        _ id: String, of path: [UInt8], at offset: Int64
    ) throws(CommandFailure) -> VersionReadResult {
        try wire.call(
            .readVersion(
                VersionReadParameters(id: id, offset: offset, length: ProtocolLimits.readBytes, of: path)))
    }
}
