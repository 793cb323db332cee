// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Glibc
import LinuxSystem

let protocolVersion = ProtocolLimits.version

/// Finds mounts by the kernel's own table.
enum MountFinder {
    static func table() throws(CommandFailure) -> MountTable {
        do throws(Errno) {
            return try MountTable.current()
        } catch {
            throw CommandFailure(.failed, "the mount table /proc/self/mountinfo cannot be read: \(error)")
        }
    }

    /// The mount of ours that a path lies in.
    static func mount(holding path: [UInt8]) throws(CommandFailure) -> MountEntry {
        try MountedPath(path).mount
    }

    /// A mount answers its own user and root, and nobody else may unmount it.
    static func checkOwner(of mount: MountEntry) throws(CommandFailure) {
        guard !mayAsk(mount), let owner = mount.user else { return }
        throw CommandFailure(
            .denied,
            "the mount at '\(mount.mountpoint.shown)' belongs to user \(owner); ask that user, or root")
    }

    static func mayAsk(_ mount: MountEntry) -> Bool {
        guard let owner = mount.user else { return true }
        return geteuid() == 0 || owner == geteuid()
    }
}

/// A plain blocking connection to the daemon of a mount.
struct ControlClient: ~Copyable {
    let peer: PeerCredentials
    let server: InitializeResult
    private var wire: ControlWire

    /// Trusts nothing but the kernel: the mount is of our type, and its daemon is root's or the caller's.
    init(to mount: MountEntry) throws(CommandFailure) {
        try MountFinder.checkOwner(of: mount)
        let place = mount.mountpoint.shown
        let socket = try Self.connection(to: mount)
        let peer: PeerCredentials
        do throws(Errno) { peer = try PeerCredentials(of: socket.rawValue) } catch {
            throw Self.unreachable(error, place)
        }
        let mayServe = peer.user == 0 || peer.user == geteuid() || (geteuid() == 0 && peer.user == mount.user)
        guard mayServe else {
            throw CommandFailure(
                .denied, "the mount at '\(place)' is served by user \(peer.user), whom you need not trust")
        }
        var wire = ControlWire(over: socket)
        server = try wire.call(
            .initialize(InitializeParameters(client: "truce", version: Truce.version)))
        self.peer = peer
        self.wire = wire
    }

    /// For a command that goes on talking in its own way.
    consuming func release() -> ControlWire { wire }

    private static func connection(to mount: MountEntry) throws(CommandFailure) -> OwnedDescriptor {
        do throws(Errno) {
            return try UnixSocket.connect(to: attribute(of: mount), timeout: ControlWire.timeoutSeconds)
        } catch {
            throw unreachable(error, mount.mountpoint.shown)
        }
    }

    /// Where the control socket of a mount is.
    static func socketPath(of mount: MountEntry) throws(CommandFailure) -> [UInt8] {
        try MountFinder.checkOwner(of: mount)
        do throws(Errno) { return try attribute(of: mount) } catch {
            throw unreachable(error, mount.mountpoint.shown)
        }
    }

    /// What the daemon serves at the root of its mount.
    private static func attribute(of mount: MountEntry) throws(Errno) -> [UInt8] {
        let root = try mount.mountpoint.withPath { (path) throws(Errno) in try OwnedDescriptor.openPath(path)
        }
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Int(PATH_MAX), alignment: 1)
        defer { buffer.deallocate() }
        let count = try root.extendedAttribute("user.truce.socket", into: buffer)
        return Array(buffer[..<count])
    }

    private static func unreachable(_ error: Errno, _ place: String) -> CommandFailure {
        switch error {
        case .notConnected:
            CommandFailure(.failed, "the daemon of '\(place)' is dead; 'truce mount \(place)' replaces it")
        case .noAccess: CommandFailure(.denied, "the mount at '\(place)' belongs to another user")
        case .noAttribute, .unsupported:
            CommandFailure(.failed, "the mount at '\(place)' has no control socket")
        default: CommandFailure(.failed, "the control socket of '\(place)' cannot be reached: \(error)")
        }
    }

    mutating func status() throws(CommandFailure) -> StatusForm { try wire.call(.status) }

    mutating func why(_ path: [UInt8]) throws(CommandFailure) -> CensusForm {
        try wire.call(.why(WhyParameters(path: path)))
    }

    mutating func census() throws(CommandFailure) -> CensusForm { try wire.call(.ps) }

    mutating func kept(under path: [UInt8]) throws(CommandFailure) -> KeptListResult {
        try wire.call(.keptList(KeptListParameters(path: path)))
    }

    mutating func read(_ id: String, at offset: Int64) throws(CommandFailure) -> KeptReadResult {
        try wire.call(
            .keptRead(KeptReadParameters(id: id, offset: offset, length: ProtocolLimits.readBytes)))
    }
}
