// SPDX-License-Identifier: Apache-2.0
package import CoordinationEngine
package import LinuxSystem

/// The rights that a user has to an item.
package struct Rights: OptionSet, Hashable, Sendable {
    package let rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// The right to read the contents of an item. For a directory, the right to list it and to look up names in it.
    package static let read = Self(rawValue: 1)
    /// The right to write the contents of an item. If the item does not exist, the right to create it.
    package static let write = Self(rawValue: 2)
    /// The right to remove or change the name of an item.
    package static let rename = Self(rawValue: 4)
}

/// Answers which rights users have to files below the mount. All functions can block.
package protocol SourceInspector: Sendable {
    /// Returns the rights that the kernel gives a user to the item at a path.
    func rights(of user: FileUser, at path: [UInt8]) throws(LookupFailure) -> Rights

    /// Returns the status of the directory at a path, if a user may list it and look up names in it; nil otherwise.
    ///
    /// Throws if there is no directory at the path.
    func listableDirectory(_ path: [UInt8], by user: FileUser) throws(LookupFailure) -> FileStatus?

    /// Returns the path of the item that a symbolic link finally leads to; nil if the item at the path is not a link.
    ///
    /// Links are followed with the rights of `user`, or with those of the daemon if `user` is nil. `lookups` is the number of
    /// names that may be looked up. The method subtracts the lookups that it makes, and throws ELOOP if there are not enough.
    func target(
        of path: [UInt8], as user: FileUser?, within lookups: inout Int
    ) throws(LookupFailure) -> [UInt8]?
}

/// The directory below the mount. It is always opened from its own descriptor, and never through the mount.
package final class SourceTree: SourceInspector {
    let root: OwnedDescriptor
    /// The parts of the mountpoint's path. An absolute symbolic link that begins with these parts leads into the mount.
    let mountpoint: [[UInt8]]

    package init(_ root: consuming OwnedDescriptor, mountedAt mountpoint: String) {
        self.root = root
        self.mountpoint = mountpoint.utf8.split(separator: UInt8(ascii: "/")).map { Array($0) }
    }

    package func rights(of user: FileUser, at path: [UInt8]) throws(LookupFailure) -> Rights {
        do throws(Errno) {
            return try user.impersonate { () throws(Errno) in
                try rights(of: user.user, at: Self.names(in: path))
            }
        } catch .noAccess {
            // The user may not search one of the directories that lead to the item, so the user has no rights to the item.
            return []
        } catch {
            throw LookupFailure(error)
        }
    }

    package func listableDirectory(_ path: [UInt8], by user: FileUser) throws(LookupFailure) -> FileStatus? {
        do throws(Errno) {
            return try user.impersonate { () throws(Errno) in
                let directory = try directory(Self.names(in: path))
                return try directory.isPermitted([.read, .search]) ? directory.status() : nil
            }
        } catch .noAccess {
            return nil
        } catch {
            throw LookupFailure(error)
        }
    }

    /// Returns the rights that the kernel gives the calling thread to the item. The thread must have the identity of the user.
    private func rights(of user: UInt32, at names: [NameBytes]) throws(Errno) -> Rights {
        guard let last = names.last else { return try contentRights(to: root) }
        let directory = try directory(names.dropLast())
        let mayChangeNames = try directory.isPermitted([.write, .search])
        do throws(Errno) {
            let item = try last.withName { (name) throws(Errno) in try directory.path(of: name) }
            let isStuck = try Self.isStuck(item, in: directory, for: user)
            let mayRename = mayChangeNames && !isStuck
            // The contents of a symbolic link cannot be written. A program that changes a link replaces it, and needs the right
            // to change its name.
            var rights =
                try item.status().isSymbolicLink
                ? (mayRename ? [.read, .write] : .read) : contentRights(to: item)
            if mayRename { rights.insert(.rename) }
            return rights
        } catch .noEntry {
            let mayMake: Rights = mayChangeNames ? [.write, .rename] : []
            return try directory.isPermitted(.search) ? mayMake.union(.read) : mayMake
        }
    }

    private func contentRights(to item: borrowing OwnedDescriptor) throws(Errno) -> Rights {
        let needed: FilePermissions = try item.status().isDirectory ? [.read, .search] : .read
        var rights: Rights = try item.isPermitted(needed) ? .read : []
        if try item.isPermitted(.write) { rights.insert(.write) }
        return rights
    }

    /// Whether the sticky bit of the directory forbids the user to remove the name. With the bit, only the owner of the
    /// directory or of the item may remove it.
    private static func isStuck(
        _ item: borrowing OwnedDescriptor, in directory: borrowing OwnedDescriptor, for user: UInt32
    ) throws(Errno) -> Bool {
        let above = try directory.status()
        guard above.isSticky, above.user != user else { return false }
        return try item.status().user != user
    }

    func directory(_ names: some Sequence<NameBytes>) throws(Errno) -> OwnedDescriptor {
        var directory = try OwnedDescriptor.duplicating(root.rawValue)
        for name in names {
            directory = try name.withName { (name) throws(Errno) in try directory.path(of: name) }
        }
        return directory
    }

    static func names(in path: [UInt8]) -> [NameBytes] {
        path.split(separator: UInt8(ascii: "/")).map { NameBytes(Array($0)) }
    }
}

extension LookupFailure {
    init(_ error: Errno) {
        switch error {
        case .noEntry, .notADirectory: self = .notFound
        default: self = .system(error.rawValue)
        }
    }
}
