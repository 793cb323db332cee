// SPDX-License-Identifier: Apache-2.0
package import LinuxSystem

/// The reason why no socket could be made.
package struct ControlSocketError: Error, Sendable {
    package let message: String
}

/// The listening sockets of one mount, made before the mount so that their paths never lead through it.
///
/// The kernel queues all connections to a socket together. So a shared mount has two sockets: one for all users, and one for
/// its owner and root, which need not wait behind others.
///
/// The directory of the sockets stays open, so that the daemon later uses no absolute path.
package struct ControlSocket: ~Copyable, Sendable {
    /// The path in the attribute `user.truce.socket.owner` of the mount's root: the socket of the owner and root.
    package let path: String
    /// The path in the attribute `user.truce.socket`, if the mount serves other users too.
    package let sharedPath: String?
    private let directory: OwnedDescriptor
    private let own: BoundListener
    private let shared: BoundListener?

    /// A listening socket and its name.
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

        /// Removes the name, unless another socket has it now.
        func remove(from directory: borrowing OwnedDescriptor) throws(Errno) {
            do throws(Errno) {
                guard try Self.inode(of: name, in: directory) == inode else { return }
                try NameBytes(Array(name.utf8)).withName { (name) throws(Errno) in
                    try directory.remove(name, isDirectory: false)
                }
            } catch .noEntry {
                // The name was removed before.
                return
            }
        }
    }

    /// Makes the sockets in the first place that works.
    ///
    /// The places are those of ``SocketDirectory/candidates(user:runtimeDirectory:)``, except in tests. `isShared` says that
    /// other users are served.
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

    /// Finds a name that follows from the mountpoint, so that the next daemon replaces the socket of a dead daemon.
    ///
    /// A live socket of this name serves the same path in another mount namespace, and keeps its name.
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

    /// FNV-1a, because Swift's own hashes differ between processes.
    private static func fingerprint(_ bytes: [UInt8]) -> UInt64 {
        bytes.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
    }

    /// A second descriptor of the owner's listener, for the code that accepts connections.
    package borrowing func duplicateListener() throws(Errno) -> OwnedDescriptor {
        try OwnedDescriptor.duplicating(own.listener.rawValue)
    }

    /// A second descriptor of the listener for all users, if there is such a listener.
    package borrowing func duplicateSharedListener() throws(Errno) -> OwnedDescriptor? {
        guard let shared else { return nil }
        return try OwnedDescriptor.duplicating(shared.listener.rawValue)
    }

    /// Removes the names, unless other sockets have them now.
    package consuming func remove() throws(Errno) {
        try own.remove(from: directory)
        try shared?.remove(from: directory)
    }
}
