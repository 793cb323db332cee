// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// A user and groups for which the permissions on files are checked.
package struct FileUser: Hashable, Sendable {
    package let user: UInt32
    package let group: UInt32
    package let supplementaryGroups: [UInt32]

    package init(user: UInt32, group: UInt32, supplementaryGroups: [UInt32]) {
        self.user = user
        self.group = group
        self.supplementaryGroups = supplementaryGroups
    }

    /// Runs `body` while the calling thread has this user's identity for files, and no capabilities that concern files.
    ///
    /// If the process does not run as root, the identity does not change. The method makes the raw system calls, because
    /// glibc's functions would change the identity of every thread.
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

/// Permissions on a file that `access(2)` can check.
package struct FilePermissions: OptionSet, Hashable, Sendable {
    package let rawValue: CInt
    package init(rawValue: CInt) { self.rawValue = rawValue }

    package static let read = Self(rawValue: R_OK)
    package static let write = Self(rawValue: W_OK)
    /// The permission to search a directory, or to execute a file.
    package static let search = Self(rawValue: X_OK)
}

extension OwnedDescriptor {
    /// Returns whether the calling thread has the permissions for the descriptor's file. An `O_PATH` descriptor is enough.
    package borrowing func isPermitted(_ permissions: FilePermissions) throws(Errno) -> Bool {
        if clinux_may_access(rawValue, permissions.rawValue) == 0 { return true }
        let error = Errno.last
        // EROFS and ETXTBSY also mean that the file cannot be written: the file system is read-only, or the file is a program
        // that is running.
        guard [EACCES, EPERM, EROFS, ETXTBSY].contains(error.rawValue) else { throw error }
        return false
    }
}
