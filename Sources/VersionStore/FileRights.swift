// SPDX-License-Identifier: Apache-2.0
package import LinuxSystem

/// The access rights of a file: owner, group, mode and access control list.
package struct FileRights: Hashable, Sendable {
    package let user: UInt32
    package let group: UInt32
    /// The file type and the permission bits, as stat(2) returns them in `st_mode`.
    package let mode: UInt32
    /// The extended attribute `system.posix_acl_access` as the kernel returns it; nil if the file has none.
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

    /// The rights of a file, reduced to those of its owner: no permissions for its group, for others, or by an access control
    /// list.
    init(ofOwnerAlone status: FileStatus) {
        self.init(
            user: status.user, group: status.group, mode: status.mode & ~0o077, accessControlList: nil)
    }

    /// Reads the rights of an open file; an `O_PATH` descriptor is enough.
    package init(of file: borrowing OwnedDescriptor) throws(Errno) {
        self.init(try file.status(), accessControlList: try file.accessControlList())
    }
}

/// The user and groups of a process.
package struct Credentials: Hashable, Sendable {
    package let user: UInt32
    /// The numbers of the process's primary group and of its other groups.
    package let groups: [UInt32]

    package init(user: UInt32, groups: [UInt32]) {
        self.user = user
        self.groups = groups
    }
}

extension FileRights {
    private static let (read, write, search): (UInt32, UInt32, UInt32) = (4, 2, 1)

    /// Whether the file's rights let a user read the file, by the algorithm of acl(5).
    ///
    /// Root may always read. If the access control list is invalid, no other user may read.
    package func mayRead(_ reader: Credentials) -> Bool { allows(Self.read, reader) }

    /// Whether the file's rights let a user write to the file, by the algorithm of acl(5).
    package func mayWrite(_ writer: Credentials) -> Bool { allows(Self.write, writer) }

    /// Whether a directory's rights let a user look up names in the directory, by the algorithm of acl(5).
    package func maySearch(_ reader: Credentials) -> Bool { allows(Self.search, reader) }

    /// Whether every user may look up names in this directory.
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
    /// Whether a user may read a version.
    ///
    /// The user needs two rights: by the rights of the document and its directories when the version was preserved, and by the
    /// rights of the document now. `now` is nil if the document is gone. If a document is closed to a user, its versions are
    /// closed too. If a document is opened to a user later, its earlier versions stay closed.
    package func mayBeRead(by reader: Credentials, now: FileRights?) -> Bool {
        rights.mayRead(reader) && closed.allSatisfy { $0.maySearch(reader) } && (now?.mayRead(reader) ?? true)
    }
}
