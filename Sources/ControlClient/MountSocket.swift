// SPDX-License-Identifier: Apache-2.0
import Glibc
package import LinuxSystem

/// A connection to the daemon of a mount.
package struct MountSocket: ~Copyable {
    package let socket: OwnedDescriptor
    /// The process at the other end.
    package let peer: PeerCredentials

    /// How many seconds the daemon may take to answer, unless stated otherwise.
    package static let timeoutSeconds = 5

    /// Connects, and trusts only the kernel.
    ///
    /// The mount must be of Truce's type. The daemon must be root's or the caller's; for root, the owner's also counts.
    package init(to mount: MountEntry) throws(ClientFailure) {
        try MountFinder.checkMayConnect(mount)
        let socket = try Self.reaching(mount) { () throws(Errno) in
            try Self.connect(to: mount)
        }
        let peer = try Self.reaching(mount) { () throws(Errno) in try PeerCredentials(of: socket.rawValue) }
        let mayServe = peer.user == 0 || peer.user == geteuid() || (geteuid() == 0 && peer.user == mount.user)
        guard mayServe else {
            let place = mount.mountpoint.printable
            throw ClientFailure(
                .denied,
                "the mount at '\(place)' is served by user \(peer.user), which is neither you nor root; it is not trusted"
            )
        }
        self.socket = socket
        self.peer = peer
    }

    /// Gives the descriptor to a caller that continues with its own code.
    package consuming func release() -> OwnedDescriptor { socket }

    /// The path of the caller's control socket, or of the socket for all users.
    package static func path(of mount: MountEntry, isShared: Bool = false) throws(ClientFailure) -> [UInt8] {
        try MountFinder.checkMayConnect(mount)
        do throws(Errno) {
            if !isShared, let own = try ownPath(of: mount) { return own }
            return try attribute("user.truce.socket", of: mount)
        } catch {
            throw unreachable(error, mount)
        }
    }

    /// Connects; root and the owner have a socket of their own, where they do not wait behind other users.
    private static func connect(to mount: MountEntry) throws(Errno) -> OwnedDescriptor {
        guard let own = try ownPath(of: mount) else { return try connectAsAll(to: mount) }
        do throws(Errno) {
            return try UnixSocket.connect(to: own, timeout: timeoutSeconds)
        } catch .noAccess {
            // A root without rights to other users' files uses the socket for all users.
            return try connectAsAll(to: mount)
        }
    }

    private static func connectAsAll(to mount: MountEntry) throws(Errno) -> OwnedDescriptor {
        try UnixSocket.connect(to: attribute("user.truce.socket", of: mount), timeout: timeoutSeconds)
    }

    /// The path of the owner's socket; nil for other users, and with an older daemon.
    private static func ownPath(of mount: MountEntry) throws(Errno) -> [UInt8]? {
        guard MountFinder.mayConnect(mount) else { return nil }
        do throws(Errno) {
            return try attribute("user.truce.socket.owner", of: mount)
        } catch .noAttribute {
            return nil
        }
    }

    /// An attribute that the daemon serves at the root of its mount.
    private static func attribute(_ name: String, of mount: MountEntry) throws(Errno) -> [UInt8] {
        if let socket = StandInMount.socket(of: mount) { return socket }
        let root = try mount.mountpoint.withPath { (path) throws(Errno) in try OwnedDescriptor.openPath(path)
        }
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Int(PATH_MAX), alignment: 1)
        defer { buffer.deallocate() }
        let count = try root.extendedAttribute(name, into: buffer)
        return Array(buffer[..<count])
    }

    private static func reaching<Value: ~Copyable>(
        _ mount: MountEntry, _ body: () throws(Errno) -> Value
    ) throws(ClientFailure) -> Value {
        do throws(Errno) { return try body() } catch { throw unreachable(error, mount) }
    }

    private static func unreachable(_ error: Errno, _ mount: MountEntry) -> ClientFailure {
        let place = mount.mountpoint.printable
        let isInPlace = mount.source == mount.mountpoint
        let places = isInPlace ? place : "\(mount.source.printable) \(place)"
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
