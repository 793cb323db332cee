// SPDX-License-Identifier: Apache-2.0
package import CoordinationEngine
package import LinuxSystem

/// What a user may do with an item.
package struct Rights: OptionSet, Hashable, Sendable {
    package let rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// The right to read contents or, for a directory, to list and search it.
    package static let read = Self(rawValue: 1)
    /// The right to write contents or, if the item does not exist, to create it.
    package static let write = Self(rawValue: 2)
    /// The right to remove its name.
    package static let rename = Self(rawValue: 4)
}

/// Questions about the directory below the mount, asked on behalf of clients. All calls may block.
package protocol SourceInspector: Sendable {
    /// What the kernel lets a user do with the item at a path.
    func rights(of user: FileUser, at path: [UInt8]) throws(LookupFailure) -> Rights

    /// The directory at a path, if a user may list and search it; nil if not.
    ///
    /// Throws if there is no such directory.
    func listableDirectory(_ path: [UInt8], by user: FileUser) throws(LookupFailure) -> FileStatus?

    /// The final target of a symbolic link; nil if the path is not a link.
    ///
    /// Links are followed with the rights of `user`, or with the daemon's own for nil. `lookups` is how many names may be
    /// looked up, and afterwards how many are left. Throws ELOOP if they do not suffice.
    func target(
        of path: [UInt8], as user: FileUser?, within lookups: inout Int
    ) throws(LookupFailure) -> [UInt8]?
}

/// The directory below the mount, opened by its own descriptor and never through the mount.
package final class SourceTree: SourceInspector {
    let root: OwnedDescriptor
    /// The names of the mountpoint; absolute links that begin with them lead into the mount.
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
            // On the way to the item.
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

    /// The rights of the calling thread.
    private func rights(of user: UInt32, at names: [NameBytes]) throws(Errno) -> Rights {
        guard let last = names.last else { return try contentRights(to: root) }
        let directory = try directory(names.dropLast())
        let mayChangeNames = try directory.isPermitted([.write, .search])
        do throws(Errno) {
            let item = try last.withName { (name) throws(Errno) in try directory.path(of: name) }
            let isStuck = try Self.isStuck(item, in: directory, for: user)
            let mayRename = mayChangeNames && !isStuck
            // A link's contents cannot be written; the link is replaced.
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

    /// With the sticky bit, only the owners of directory and item may remove the name.
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
