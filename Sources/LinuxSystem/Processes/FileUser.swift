// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// Somebody whose rights to files are asked about.
package struct FileUser: Hashable, Sendable {
    package let user: UInt32
    package let group: UInt32
    package let supplementaryGroups: [UInt32]

    package init(user: UInt32, group: UInt32, supplementaryGroups: [UInt32]) {
        self.user = user
        self.group = group
        self.supplementaryGroups = supplementaryGroups
    }

    /// Runs `body` while the calling thread is this user to the file system, with no capability that concerns files.
    ///
    /// Only root can; nobody else needs to. By the raw calls, since glibc's would change every thread.
    package func impersonate<Value: ~Copyable>(_ body: () throws(Errno) -> Value) throws(Errno) -> Value {
        let (own, ownGroup, ownGroups) = (geteuid(), getegid(), try Self.ownGroups())
        guard clinux_act_as(user, group, supplementaryGroups, supplementaryGroups.count) == 0 else {
            throw .last
        }
        defer { clinux_act_as_oneself(own, ownGroup, ownGroups, ownGroups.count) }
        guard clinux_acts_as(user, group) != 0 else { throw .notPermitted }
        return try body()
    }

    private static func ownGroups() throws(Errno) -> [UInt32] {
        let count = getgroups(0, nil)
        guard count >= 0 else { throw .last }
        var groups = [UInt32](repeating: 0, count: Int(count))
        guard getgroups(count, &groups) == count else { throw .last }
        return groups
    }
}

/// What may be permitted to somebody, as `access(2)` asks for it.
package struct FilePermissions: OptionSet, Hashable, Sendable {
    package let rawValue: CInt
    package init(rawValue: CInt) { self.rawValue = rawValue }

    package static let read = Self(rawValue: R_OK)
    package static let write = Self(rawValue: W_OK)
    /// To look into a directory, or execute a file.
    package static let search = Self(rawValue: X_OK)
}

extension OwnedDescriptor {
    /// Whether the calling thread may do all that to what the descriptor stands for, `O_PATH` or not.
    package borrowing func isPermitted(_ permissions: FilePermissions) throws(Errno) -> Bool {
        if clinux_may_access(rawValue, permissions.rawValue) == 0 { return true }
        let error = Errno.last
        // A file system that is mounted read-only, or a file that is immutable, permits no writing either.
        guard [EACCES, EPERM, EROFS, ETXTBSY].contains(error.rawValue) else { throw error }
        return false
    }
}
