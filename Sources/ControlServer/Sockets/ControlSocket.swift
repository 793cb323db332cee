// SPDX-License-Identifier: Apache-2.0
package import LinuxSystem

/// The error if no directory could be used for a control socket.
package struct ControlSocketError: Error, Sendable {
    package let message: String
}

/// The listening sockets of one mount. They are made before the mount, so that their paths never lead through the mount.
///
/// The kernel puts all new connections to a socket into one queue. A shared mount therefore has two sockets: one for all users,
/// and one for the owner and root. The owner and root then do not wait behind other users.
///
/// The directory of the sockets stays open, so that the daemon can remove the sockets without an absolute path.
package struct ControlSocket: ~Copyable, Sendable {
    /// The path of the socket for the owner and root. It is also the value of the attribute `user.truce.socket.owner` of the
    /// mount's root.
    package let path: String
    /// The path of the socket for all users, in the attribute `user.truce.socket`. Nil if the mount serves only the owner and
    /// root.
    package let sharedPath: String?
    private let directory: OwnedDescriptor
    private let own: BoundListener
    private let shared: BoundListener?

    /// A listening socket, with its name and inode in the directory.
    private final class BoundListener: Sendable {
        let name: String
        let inode: UInt64
        let listener: OwnedDescriptor

        init(
            as name: String, in directory: borrowing OwnedDescriptor, mode: UInt32
        ) throws(Errno) {
            let listener = try UnixSocket.listen(as: name, in: directory, mode: mode)
            let inode = try Self.inode(of: name, in: directory)
            (self.name, self.inode) = (name, inode)
            self.listener = listener
        }

        private static func inode(
            of name: String, in directory: borrowing OwnedDescriptor
        ) throws(Errno) -> UInt64 {
            try NameBytes(Array(name.utf8)).withName { (name) throws(Errno) in
                try directory.status(of: name).inode
            }
        }

        /// Removes the name of this socket from the directory, unless another socket has taken over the name.
        func remove(from directory: borrowing OwnedDescriptor) throws(Errno) {
            do throws(Errno) {
                guard try Self.inode(of: name, in: directory) == inode else { return }
                try NameBytes(Array(name.utf8)).withName { (name) throws(Errno) in
                    try directory.remove(name, isDirectory: false)
                }
            } catch .noEntry {
                // The name was already removed.
                return
            }
        }
    }

    /// Makes the sockets in the first usable directory of `places`.
    ///
    /// Outside tests, `places` is ``SocketDirectory/candidates(user:runtimeDirectory:)``. If `isShared` is true, a socket for
    /// all users is made too.
    package static func make(
        mountpoint: String, user: UInt32, places: [SocketDirectory.Candidate], isShared: Bool = false
    ) throws(ControlSocketError) -> ControlSocket {
        var refusals: [String] = []
        for candidate in places {
            do throws(Errno) {
                return try ControlSocket(for: mountpoint, user: user, in: candidate, isShared: isShared)
            } catch {
                refusals.append("\(candidate.path): \(error)")
            }
        }
        throw ControlSocketError(
            message: "no place for the control socket (\(refusals.joined(separator: "; ")))")
    }

    private init(
        for mountpoint: String, user: UInt32, in candidate: SocketDirectory.Candidate, isShared: Bool
    ) throws(Errno) {
        let directory = try SocketDirectory.open(candidate, user: user)
        let stem = try Self.freeStem(for: mountpoint, in: directory)
        let (name, ownName) = ("\(stem).sock", "\(stem).owner.sock")
        let own = try BoundListener(
            as: isShared ? ownName : name, in: directory, mode: candidate.socketMode & 0o600)
        let shared = isShared ? try BoundListener(as: name, in: directory, mode: candidate.socketMode) : nil
        (self.own, self.shared) = (own, shared)
        path = "\(candidate.path)/\(own.name)"
        sharedPath = shared.map { "\(candidate.path)/\($0.name)" }
        self.directory = directory
    }

    /// Returns a name for the socket that is computed from the mountpoint. The next daemon of the same mountpoint gets the same
    /// name, so it replaces the socket of a dead daemon.
    ///
    /// A live daemon can have the name already, if it serves the same path in another mount namespace. Its socket stays, and
    /// another name is tried.
    private static func freeStem(
        for mountpoint: String, in directory: borrowing OwnedDescriptor
    ) throws(Errno) -> String {
        let hash = String(fingerprint(Array(mountpoint.utf8)), radix: 16)
        for attempt in 0..<16 {
            let stem = attempt == 0 ? hash : "\(hash)-\(attempt)"
            do throws(Errno) {
                _ = try UnixSocket.connect(to: Array("\(stem).sock".utf8), in: directory, timeout: 1)
            } catch {
                if error == .noEntry || error == .connectionRefused { return stem }
            }
        }
        throw .exists
    }

    /// Computes a hash by the algorithm FNV-1a. Swift's own hashes are not used, because they differ from process to process.
    private static func fingerprint(_ bytes: [UInt8]) -> UInt64 {
        bytes.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
    }

    /// Returns a second descriptor of the socket for the owner and root. The code that accepts connections owns this
    /// descriptor.
    package borrowing func duplicateListener() throws(Errno) -> OwnedDescriptor {
        try OwnedDescriptor.duplicating(own.listener.rawValue)
    }

    /// Returns a second descriptor of the socket for all users; nil if there is no such socket.
    package borrowing func duplicateSharedListener() throws(Errno) -> OwnedDescriptor? {
        guard let shared else { return nil }
        return try OwnedDescriptor.duplicating(shared.listener.rawValue)
    }

    /// Removes the names of the sockets, unless other sockets have taken over these names.
    package consuming func remove() throws(Errno) {
        try own.remove(from: directory)
        try shared?.remove(from: directory)
    }
}
