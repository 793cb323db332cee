// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// Finds dead FUSE mounts. After the end of a mount's daemon, the mount is dead: every call at its path fails with ENOTCONN.
///
/// Root replaces a dead mount in three steps, which never expose the directory below. Root opens that directory although the
/// dead mount covers it, makes a new mount beneath the dead mount, and removes the dead mount.
package enum DeadMountProbe {
    /// Returns whether a dead FUSE mount is at a path.
    ///
    /// The method calls statvfs(3), because the kernel never caches its result. A call of stat(2) could return cached
    /// attributes of the dead mount.
    package static func isDead(_ path: [UInt8], in table: MountTable) -> Bool {
        guard let mount = table.top(at: path), mount.type.hasPrefix("fuse") else { return false }
        var status = statvfs()
        return path.withPath { statvfs($0, &status) } != 0 && Errno.last == .notConnected
    }

    /// Opens with `O_PATH` the directory that is covered by the only mount at a path.
    ///
    /// Throws EPERM to users other than root. Throws EOPNOTSUPP if the file system has no file handles, or if several mounts
    /// are stacked at the path.
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

/// The open root of a dead mount. It belongs to the same mount even after a directory above the mount was renamed.
package struct DeadMountRoot: ~Copyable, Sendable {
    private let root: OwnedDescriptor
    private let mount: Int

    /// Opens the dead mount at a path, which must contain no symbolic links. Returns nil if no dead mount is at the path.
    package init?(at path: [UInt8], in table: MountTable) throws(Errno) {
        guard DeadMountProbe.isDead(path, in: table) else { return nil }
        let opened = try OwnedDescriptor.openResolved(path)
        guard let id = opened.mountID, id == table.top(at: path)?.id else { throw .stale }
        root = opened
        mount = id
    }

    /// Returns whether this dead mount covers `directory`, at the path that the directory has now.
    package borrowing func covers(_ directory: borrowing OwnedDescriptor) throws(Errno) -> Bool {
        let slash = UInt8(ascii: "/")
        guard let name = try directory.currentPath().split(separator: slash).last else { return false }
        return try directory.parent().mount(at: NameBytes(Array(name))) == mount
    }

    /// Makes a FUSE mount beneath the dead mount, removes the dead mount, and returns the root of the new mount.
    package borrowing func replace(
        with settings: MountSettings, on device: borrowing OwnedDescriptor
    ) throws(Errno) -> MountRoot {
        let made = try MountRoot(of: settings, on: device)
        do throws(Errno) {
            try made.attach(beneath: root)
        } catch {
            // Another command has possibly replaced the dead mount before this call. If not, the kernel is older than Linux 6.5
            // and cannot mount beneath another mount.
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
    /// Returns the number of the mount at the name in this directory. If no mount is there, returns the number of the mount
    /// that contains the file of this name.
    borrowing func mount(at name: NameBytes) throws(Errno) -> Int? {
        try name.withName { (name) throws(Errno) in try path(of: name).mountID }
    }

    /// Opens with `O_PATH` a directory that is below this directory, even if a mount covers it.
    ///
    /// This directory must be open for listing. The method copies the mount without its inner mounts, so nothing covers the
    /// directory in the copy. From the copy it takes the directory's file handle, which finds the same directory in the
    /// original mount.
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
