// SPDX-License-Identifier: Apache-2.0
package import LinuxSystem

/// Who may do what with a file: owner, group, mode and access control list.
package struct FileRights: Hashable, Sendable {
    package let user: UInt32
    package let group: UInt32
    /// Kind and permissions, as the kernel packs them.
    package let mode: UInt32
    /// The xattr `system.posix_acl_access` as the kernel gives it, nil if there is none.
    package let accessControlList: [UInt8]?

    package init(user: UInt32, group: UInt32, mode: UInt32, accessControlList: [UInt8]?) {
        self.user = user
        self.group = group
        self.mode = mode
        self.accessControlList = accessControlList
    }

    package init(_ status: FileStatus, accessControlList: [UInt8]?) {
        self.init(
            user: status.user, group: status.group, mode: status.mode,
            accessControlList: accessControlList)
    }

    /// Those that a file's owner has, and nobody else.
    init(ofOwnerAlone status: FileStatus) {
        self.init(
            user: status.user, group: status.group, mode: status.mode & ~0o077, accessControlList: nil)
    }

    /// Of what a descriptor, `O_PATH` will do, stands for.
    package init(of file: borrowing OwnedDescriptor) throws(Errno) {
        self.init(try file.status(), accessControlList: try file.accessControlList())
    }
}

/// Somebody who asks to read.
package struct Credentials: Hashable, Sendable {
    package let user: UInt32
    /// The primary group and all others.
    package let groups: [UInt32]

    package init(user: UInt32, groups: [UInt32]) {
        self.user = user
        self.groups = groups
    }
}

extension FileRights {
    private static let (read, write, search): (UInt32, UInt32, UInt32) = (4, 2, 1)

    /// Whether the owner, mode and list let somebody read, by the algorithm of acl(5).
    ///
    /// Root may always. A list that cannot be understood lets nobody else.
    package func mayRead(_ reader: Credentials) -> Bool { allows(Self.read, reader) }

    /// The same of writing.
    package func mayWrite(_ writer: Credentials) -> Bool { allows(Self.write, writer) }

    /// The same of looking for what is in a directory.
    package func maySearch(_ reader: Credentials) -> Bool { allows(Self.search, reader) }

    /// Whether everybody may look for what is in a directory.
    package var isOpenToAll: Bool { accessControlList == nil && mode & 0o111 == 0o111 }

    private func allows(_ wanted: UInt32, _ reader: Credentials) -> Bool {
        if reader.user == 0 { return true }
        guard let bytes = accessControlList else { return modeAllows(wanted, reader) }
        guard let list = AccessControlList(bytes) else { return false }
        return list.allows(wanted, reader, owner: user, group: group)
    }

    private func modeAllows(_ wanted: UInt32, _ reader: Credentials) -> Bool {
        let shift: UInt32 = reader.user == user ? 6 : reader.groups.contains(group) ? 3 : 0
        return mode >> shift & wanted != 0
    }
}

extension VersionRecord {
    /// Whether somebody may read what was kept: both as the file and the directories above were then, and as the document is now.
    ///
    /// Otherwise a document that was closed to somebody would lie open in its past, and one that was
    /// opened to somebody would show what was there before. `now` is nil if the document is gone.
    package func mayBeRead(by reader: Credentials, now: FileRights?) -> Bool {
        rights.mayRead(reader) && closed.allSatisfy { $0.maySearch(reader) } && (now?.mayRead(reader) ?? true)
    }
}
