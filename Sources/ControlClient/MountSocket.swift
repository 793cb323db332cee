// SPDX-License-Identifier: Apache-2.0
import Glibc
package import LinuxSystem

/// A connection to the control socket of a mount.
package struct MountSocket: ~Copyable {
    package let socket: OwnedDescriptor
    /// The process, user and group of the daemon, as the kernel recorded them when the daemon began to listen.
    package let peer: PeerCredentials

    /// The seconds within which the daemon must answer, unless a connection has another time limit.
    package static let timeoutSeconds = 5

    /// Connects to the daemon of a mount, and checks the user of the daemon.
    ///
    /// The kernel reports that user, so another program cannot pretend to be the daemon. The daemon must run as root or as the
    /// caller's user. If the caller is root, the daemon may also run as the owner of the mount.
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

    /// Ends this value without closing the socket, and returns the socket's descriptor. The caller must close it.
    package consuming func release() -> OwnedDescriptor { socket }

    /// The path of a control socket of the mount. For the owner and root, it is their own socket, unless `isShared` is true.
    /// For other users, it is the socket for all users.
    package static func path(of mount: MountEntry, isShared: Bool = false) throws(ClientFailure) -> [UInt8] {
        try MountFinder.checkMayConnect(mount)
        do throws(Errno) {
            if !isShared, let own = try ownPath(of: mount) { return own }
            return try attribute("user.truce.socket", of: mount)
        } catch {
            throw unreachable(error, mount)
        }
    }

    /// Connects to a control socket of the mount. Root and the owner connect to their own socket, so they do not wait behind
    /// other users.
    private static func connect(to mount: MountEntry) throws(Errno) -> OwnedDescriptor {
        guard let own = try ownPath(of: mount) else { return try connectAsAll(to: mount) }
        do throws(Errno) {
            return try UnixSocket.connect(to: own, timeout: timeoutSeconds)
        } catch .noAccess {
            // In a container, root possibly has no right to the files of other users. In this case the client tries the socket
            // for all users.
            return try connectAsAll(to: mount)
        }
    }

    private static func connectAsAll(to mount: MountEntry) throws(Errno) -> OwnedDescriptor {
        try UnixSocket.connect(to: attribute("user.truce.socket", of: mount), timeout: timeoutSeconds)
    }

    /// The path of the socket for the owner and root. Nil if the caller is another user, or if the daemon is too old to have
    /// this socket.
    private static func ownPath(of mount: MountEntry) throws(Errno) -> [UInt8]? {
        guard MountFinder.mayConnect(mount) else { return nil }
        do throws(Errno) {
            return try attribute("user.truce.socket.owner", of: mount)
        } catch .noAttribute {
            return nil
        }
    }

    /// Reads an extended attribute of the mount's root. The daemon itself answers the request, not the file system below.
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
