// SPDX-License-Identifier: Apache-2.0
import LinuxSystem

/// The directories in which the daemon tries to make its control sockets, in this order.
package enum SocketDirectory {
    package struct Candidate: Hashable, Sendable {
        package var path: String
        /// Whether the directory that contains this directory must belong to the user. If false, it belongs to the system, for
        /// example `/run`.
        package var needsOwnedParent: Bool
        package var mode: UInt32
        package var socketMode: UInt32

        package init(path: String, needsOwnedParent: Bool, mode: UInt32, socketMode: UInt32) {
            self.path = path
            self.needsOwnedParent = needsOwnedParent
            self.mode = mode
            self.socketMode = socketMode
        }
    }

    /// Returns the directories to try. The function only computes paths, so that tests can check their order.
    ///
    /// Root can lack the right to write in `/run`, for example in a user namespace. For this case, the list continues with a
    /// directory for users.
    package static func candidates(user: UInt32, runtimeDirectory: String?) -> [Candidate] {
        var candidates: [Candidate] = []
        if user == 0 {
            candidates.append(
                Candidate(path: "/run/truce", needsOwnedParent: false, mode: 0o755, socketMode: 0o666))
        }
        func offer(_ path: String, needsOwnedParent: Bool) {
            candidates.append(
                Candidate(path: path, needsOwnedParent: needsOwnedParent, mode: 0o700, socketMode: 0o600))
        }
        if let runtimeDirectory, runtimeDirectory.hasPrefix("/") {
            offer(runtimeDirectory + "/truce", needsOwnedParent: true)
        }
        offer("/run/user/\(user)/truce", needsOwnedParent: true)
        offer("/tmp/truce-\(user)", needsOwnedParent: false)
        return candidates
    }

    /// Opens a directory for sockets, and creates it if it is missing.
    ///
    /// Throws if another user can change the contents of the directory.
    static func open(_ candidate: Candidate, user: UInt32) throws(Errno) -> OwnedDescriptor {
        if candidate.needsOwnedParent {
            let parent = String(candidate.path.dropLast("/truce".count))
            let status = try OwnedDescriptor.openPath(parent).status()
            guard status.user == user else { throw .notPermitted }
        }
        _ = try OwnedDescriptor.makeDirectory(at: candidate.path, mode: candidate.mode)
        let directory = try OwnedDescriptor.openDirectory(at: candidate.path)
        let status = try directory.status()
        guard status.user == user, status.mode & 0o777 & ~candidate.mode == 0 else { throw .notPermitted }
        return directory
    }
}
