// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// FUSE mounts with a dead daemon: every call at their path fails with ENOTCONN.
///
/// Root replaces such a mount without exposing the directory below. It opens that directory although it is covered, mounts
/// beneath the dead mount, and then removes the dead mount.
package enum DeadMountProbe {
    /// Returns whether a dead FUSE mount is at a path.
    ///
    /// It does not use stat(2): the kernel may have cached the root's attributes. It never caches the result of statvfs(3).
    package static func isDead(_ path: [UInt8], in table: MountTable) -> Bool {
        guard let mount = table.top(at: path), mount.type.hasPrefix("fuse") else { return false }
        var status = statvfs()
        return path.withPath { statvfs($0, &status) } != 0 && Errno.last == .notConnected
    }

    /// Opens the directory that the only mount at a path covers, with `O_PATH`.
    ///
    /// Throws EPERM to users other than root, and EOPNOTSUPP if there are no file handles or mounts are stacked.
    package static func openCovered(_ path: [UInt8], in table: MountTable) throws(Errno) -> OwnedDescriptor {
        guard table.entries.count(where: { $0.mountpoint == path }) == 1,
            let dead = table.top(at: path)?.id,
            let slash = path.lastIndex(of: UInt8(ascii: "/")), slash + 1 < path.count
        else { throw .unsupported }
        let parent = try OwnedDescriptor.openResolved(
            slash == 0 ? [UInt8(ascii: "/")] : Array(path[..<slash])
        ).openForListing()
        let name = NameBytes(Array(path[(slash + 1)...]))
        guard try parent.mount(at: name) == dead else { throw .stale }
        return try parent.openBehindMounts(Array(path[(slash + 1)...]))
    }
}

/// The root of a dead mount, opened once, so that later renames of a parent directory do not matter.
package struct DeadMountRoot: ~Copyable, Sendable {
    private let root: OwnedDescriptor
    private let mount: Int

    /// Returns nil if no dead mount is at the path, which must contain no symbolic links.
    package init?(at path: [UInt8], in table: MountTable) throws(Errno) {
        guard DeadMountProbe.isDead(path, in: table) else { return nil }
        let opened = try OwnedDescriptor.openResolved(path)
        guard let id = opened.mountID, id == table.top(at: path)?.id else { throw .stale }
        root = opened
        mount = id
    }

    /// Returns whether the mount covers this directory, at the directory's present place and name.
    package borrowing func covers(_ directory: borrowing OwnedDescriptor) throws(Errno) -> Bool {
        let slash = UInt8(ascii: "/")
        guard let name = try directory.currentPath().split(separator: slash).last else { return false }
        return try directory.parent().mount(at: NameBytes(Array(name))) == mount
    }

    /// Mounts a FUSE file system beneath the dead mount, removes that, and returns the root of the new mount.
    package borrowing func replace(
        with settings: MountSettings, on device: borrowing OwnedDescriptor
    ) throws(Errno) -> MountRoot {
        let made = try MountRoot(of: settings, on: device)
        do throws(Errno) {
            try made.attach(beneath: root)
        } catch {
            // Another command may have replaced the dead mount meanwhile. Otherwise this is Linux before 6.5, which cannot
            // mount beneath.
            guard try MountTable.current().entry(id: mount) != nil else { throw .stale }
            throw error
        }
        try detach()
        return made
    }

    package borrowing func detach() throws(Errno) {
        guard clinux_detach(root.rawValue) == 0 else { throw .last }
    }
}

extension OwnedDescriptor {
    /// Returns the mount with its root under a name in this directory, or the mount that contains the named directory.
    borrowing func mount(at name: NameBytes) throws(Errno) -> Int? {
        try name.withName { (name) throws(Errno) in try path(of: name).mountID }
    }

    /// Opens, with `O_PATH`, a directory that a mount may cover, in this directory, which is open for listing.
    ///
    /// A copy of the mount, made without its inner mounts, contains the directory. Its file handle then finds the directory
    /// in the original mount, which has all inner mounts.
    borrowing func openBehindMounts(_ path: [UInt8]) throws(Errno) -> OwnedDescriptor {
        let copy = clinux_clone_mount(rawValue)
        guard copy >= 0 else { throw .last }
        let bare = try OwnedDescriptor(adopting: copy).openResolved(path)
        let found = try self.path(of: try bare.persistentHandle())
        let (wanted, status) = (try bare.status(), try found.status())
        guard status.device == wanted.device, status.inode == wanted.inode, status.isDirectory else {
            throw .stale
        }
        return found
    }
}
