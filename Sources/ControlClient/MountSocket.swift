// SPDX-License-Identifier: Apache-2.0
import Glibc
package import LinuxSystem

/// A connection to the daemon of a mount.
package struct MountSocket: ~Copyable {
    package let socket: OwnedDescriptor
    /// Who is at the other end.
    package let peer: PeerCredentials

    /// How long the daemon may take to answer, where nothing else is said.
    package static let timeoutSeconds = 5

    /// Trusts nothing but the kernel: the mount is of our type, and its daemon is root's or the caller's.
    package init(to mount: MountEntry) throws(ClientFailure) {
        try MountFinder.checkMayAsk(mount)
        let socket = try Self.reaching(mount) { () throws(Errno) in
            try UnixSocket.connect(to: Self.attribute(of: mount), timeout: Self.timeoutSeconds)
        }
        let peer = try Self.reaching(mount) { () throws(Errno) in try PeerCredentials(of: socket.rawValue) }
        let mayServe = peer.user == 0 || peer.user == geteuid() || (geteuid() == 0 && peer.user == mount.user)
        guard mayServe else {
            let place = mount.mountpoint.shown
            throw ClientFailure(
                .denied, "the mount at '\(place)' is served by user \(peer.user), whom you need not trust")
        }
        self.socket = socket
        self.peer = peer
    }

    /// For whoever goes on talking in its own way.
    package consuming func release() -> OwnedDescriptor { socket }

    /// Where the control socket of a mount is.
    package static func path(of mount: MountEntry) throws(ClientFailure) -> [UInt8] {
        try MountFinder.checkMayAsk(mount)
        do throws(Errno) { return try attribute(of: mount) } catch {
            throw unreachable(error, mount)
        }
    }

    /// What the daemon serves at the root of its mount.
    private static func attribute(of mount: MountEntry) throws(Errno) -> [UInt8] {
        if let socket = StandInMount.socket(of: mount) { return socket }
        let root = try mount.mountpoint.withPath { (path) throws(Errno) in try OwnedDescriptor.openPath(path)
        }
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Int(PATH_MAX), alignment: 1)
        defer { buffer.deallocate() }
        let count = try root.extendedAttribute("user.truce.socket", into: buffer)
        return Array(buffer[..<count])
    }

    private static func reaching<Value: ~Copyable>(
        _ mount: MountEntry, _ body: () throws(Errno) -> Value
    ) throws(ClientFailure) -> Value {
        do throws(Errno) { return try body() } catch { throw unreachable(error, mount) }
    }

    private static func unreachable(_ error: Errno, _ mount: MountEntry) -> ClientFailure {
        let place = mount.mountpoint.shown
        let isInPlace = mount.source == mount.mountpoint
        let places = isInPlace ? place : "\(mount.source.shown) \(place)"
        return switch error {
        case .notConnected:
            ClientFailure(
                .failed,
                "the daemon of '\(place)' is dead; 'truce mount \(places)', with its options, replaces it")
        case .noAccess: ClientFailure(.denied, "the mount at '\(place)' belongs to another user")
        case .noAttribute, .unsupported:
            ClientFailure(.failed, "the mount at '\(place)' has no control socket")
        default: ClientFailure(.failed, "the control socket of '\(place)' cannot be reached: \(error)")
        }
    }
}
