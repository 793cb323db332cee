// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// FUSE mounts whose daemon has died: every call at their path fails with ENOTCONN.
///
/// Root replaces one without ever showing the directory below: that is opened although it is covered, the new mount goes
/// beneath the dead one, and then the dead one goes.
package enum DeadMountProbe {
    /// Not by stat(2): the kernel may still remember the root's attributes. It never remembers these.
    package static func isDead(_ path: [UInt8], in table: MountTable) -> Bool {
        guard let mount = table.top(at: path), mount.type.hasPrefix("fuse") else { return false }
        var status = statvfs()
        return path.withPath { statvfs($0, &status) } != 0 && Errno.last == .notConnected
    }

    /// Opens the directory that the one mount at a path covers, with `O_PATH`.
    ///
    /// Throws EPERM to users, and EOPNOTSUPP where there are no file handles or mounts are stacked.
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

/// The root of a dead mount, opened once: whatever is renamed above it meanwhile, what is done is done there.
package struct DeadMountRoot: ~Copyable, Sendable {
    private let root: OwnedDescriptor
    private let mount: Int

    /// Nil if no dead mount is at the path, which must have no links in it.
    package init?(at path: [UInt8], in table: MountTable) throws(Errno) {
        guard DeadMountProbe.isDead(path, in: table) else { return nil }
        let opened = try OwnedDescriptor.openResolved(path)
        guard let id = opened.mountID, id == table.top(at: path)?.id else { throw .stale }
        root = opened
        mount = id
    }

    /// Whether it hides this directory, wherever that is by now and whatever it is called.
    package borrowing func covers(_ directory: borrowing OwnedDescriptor) throws(Errno) -> Bool {
        let slash = UInt8(ascii: "/")
        guard let name = try directory.currentPath().split(separator: slash).last else { return false }
        return try directory.parent().mount(at: NameBytes(Array(name))) == mount
    }

    /// Mounts a FUSE file system beneath it, and takes it away. Gives the new mount's root.
    package borrowing func replace(
        with settings: MountSettings, on device: borrowing OwnedDescriptor
    ) throws(Errno) -> MountRoot {
        let made = try MountRoot(of: settings, on: device)
        do throws(Errno) {
            try made.attach(beneath: root)
        } catch {
            // Another command may have replaced it meanwhile. Else it is Linux before 6.5, which has no beneath.
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
    /// The mount whose root is seen under a name in this directory, or which the directory is on.
    borrowing func mount(at name: NameBytes) throws(Errno) -> Int? {
        try name.withName { (name) throws(Errno) in try path(of: name).mountID }
    }

    /// Opens a directory in this one, which is open for listing, with `O_PATH`, though a mount covers it.
    ///
    /// A copy of the mount, made without what is mounted in it, shows it; by its file handle it is found again
    /// in the mount itself, which has everything that is mounted below.
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
