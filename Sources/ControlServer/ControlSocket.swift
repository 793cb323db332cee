// SPDX-License-Identifier: Apache-2.0
package import LinuxSystem

/// Why no socket could be made.
package struct ControlSocketError: Error, Sendable {
    package let message: String
}

/// The listening socket of one mount, made before the mount so that it is never looked for below it.
///
/// Its directory is held open: afterwards the daemon touches no absolute path.
package struct ControlSocket: ~Copyable, Sendable {
    /// What the served attribute `user.truce.socket` of the mount's root says.
    package let path: String
    private let name: String
    private let inode: UInt64
    private let directory: OwnedDescriptor
    private let listener: OwnedDescriptor

    /// Tries one place after the other.
    ///
    /// The places are those of ``SocketDirectory/candidates(user:runtimeDirectory:)``, save in tests.
    package static func make(
        mountpoint: String, user: UInt32, places: [SocketDirectory.Candidate]
    ) throws(ControlSocketError) -> ControlSocket {
        var refusals: [String] = []
        for candidate in places {
            do throws(Errno) {
                return try make(mountpoint: mountpoint, user: user, in: candidate)
            } catch {
                refusals.append("\(candidate.path): \(error)")
            }
        }
        throw ControlSocketError(
            message: "no place for the control socket (\(refusals.joined(separator: "; ")))")
    }

    private init(
        path: String, name: String, inode: UInt64, directory: consuming OwnedDescriptor,
        listener: consuming OwnedDescriptor
    ) {
        self.path = path
        self.name = name
        self.inode = inode
        self.directory = directory
        self.listener = listener
    }

    private static func make(
        mountpoint: String, user: UInt32, in candidate: SocketDirectory.Candidate
    ) throws(Errno) -> ControlSocket {
        let directory = try SocketDirectory.open(candidate, user: user)
        let name = try freeName(for: mountpoint, in: directory)
        let listener = try UnixSocket.listen(as: name, in: directory, mode: candidate.socketMode)
        let inode = try inode(of: name, in: directory)
        return ControlSocket(
            path: candidate.path + "/" + name, name: name, inode: inode, directory: directory,
            listener: listener)
    }

    private static func inode(
        of name: String, in directory: borrowing OwnedDescriptor
    ) throws(Errno) -> UInt64 {
        try NameBytes(Array(name.utf8)).withName { (name) throws(Errno) in
            try directory.status(of: name).inode
        }
    }

    /// A name that follows from the mountpoint, so that the next daemon takes the place of a dead one.
    ///
    /// A live one of the same name serves the same path in another mount namespace, and keeps it.
    private static func freeName(
        for mountpoint: String, in directory: borrowing OwnedDescriptor
    ) throws(Errno) -> String {
        let hash = String(fingerprint(Array(mountpoint.utf8)), radix: 16)
        for attempt in 0..<16 {
            let name = attempt == 0 ? "\(hash).sock" : "\(hash)-\(attempt).sock"
            do throws(Errno) {
                _ = try UnixSocket.connect(to: Array(name.utf8), in: directory, timeout: 1)
            } catch {
                if error == .noEntry || error == .connectionRefused { return name }
            }
        }
        throw .exists
    }

    /// FNV-1a: Swift's own hashes differ from process to process.
    private static func fingerprint(_ bytes: [UInt8]) -> UInt64 {
        bytes.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
    }

    /// A second descriptor of the listener, for whoever accepts connections.
    package borrowing func duplicateListener() throws(Errno) -> OwnedDescriptor {
        try OwnedDescriptor.duplicating(listener.rawValue)
    }

    /// Takes the name away, unless another socket has it by now.
    package consuming func remove() throws(Errno) {
        do throws(Errno) {
            guard try Self.inode(of: name, in: directory) == inode else { return }
            try NameBytes(Array(name.utf8)).withName { (name) throws(Errno) in
                try directory.remove(name, isDirectory: false)
            }
        } catch .noEntry {
            // Somebody tidied up before.
            return
        }
    }
}
