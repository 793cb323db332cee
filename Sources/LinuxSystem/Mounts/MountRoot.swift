// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// The root of a FUSE mount that root creates by descriptors, not by paths.
///
/// No path is resolved twice, so the mount covers exactly the directory that was checked.
package struct MountRoot: ~Copyable, Sendable {
    private let root: OwnedDescriptor

    /// Whether this process can create a mount by descriptors. Root without CAP_SYS_ADMIN cannot.
    package static var isPossible: Bool {
        let context = clinux_fsopen("fuse")
        return context >= 0 && close(context) == 0
    }

    /// Creates a mount that is not attached to a directory yet. If it is never attached, the kernel removes it when its last
    /// descriptor is closed.
    ///
    /// Throws EPERM without CAP_SYS_ADMIN.
    package init(of settings: MountSettings, on device: borrowing OwnedDescriptor) throws(Errno) {
        let context = clinux_fsopen("fuse")
        guard context >= 0 else { throw .last }
        let filesystem = OwnedDescriptor(adopting: context)
        for (key, value) in settings.values(on: device.rawValue) {
            guard clinux_fsconfig(filesystem.rawValue, key, value) == 0 else { throw .last }
        }
        let mount = clinux_fsmount(filesystem.rawValue, settings.attributes)
        guard mount >= 0 else { throw .last }
        root = OwnedDescriptor(adopting: mount)
    }

    /// The mount's number in the mount table.
    package var id: Int? { root.mountID }

    /// Attaches the mount over a directory, wherever the directory is now.
    package borrowing func attach(over directory: borrowing OwnedDescriptor) throws(Errno) {
        guard clinux_move_onto(root.rawValue, directory.rawValue) == 0 else { throw .last }
    }

    /// Attaches this mount beneath the mount with the root `other`. Throws EINVAL before Linux 6.5.
    borrowing func attach(beneath other: borrowing OwnedDescriptor) throws(Errno) {
        guard clinux_move_beneath(root.rawValue, other.rawValue) == 0 else { throw .last }
    }

    /// Removes the mount. If this fails, a dead mount stays, and the next daemon's mount replaces it.
    package consuming func discard() { _ = clinux_detach(root.rawValue) }
}

/// The kernel's settings for a FUSE mount that root creates.
package struct MountSettings: Sendable {
    /// The longest value that fsconfig(2) accepts. For a longer value, mount(2) is needed.
    private static let longestValue = 255

    package var sourceName: String
    package var allowOther = false
    package var readOnly = false
    package var nosuid = false
    package var nodev = false
    package var noexec = false

    package init(sourceName: String) { self.sourceName = sourceName }

    /// Whether root can create a mount with these settings by descriptors.
    package var canMountByDescriptor: Bool { sourceName.utf8.count <= Self.longestValue }

    fileprivate func values(on device: CInt) -> [(key: String, value: String?)] {
        var values: [(String, String?)] = [
            ("source", sourceName), ("subtype", "truce"), ("fd", "\(device)"), ("rootmode", "40000"),
            ("user_id", "0"), ("group_id", "0"), ("default_permissions", nil),
        ]
        if allowOther { values.append(("allow_other", nil)) }
        if readOnly { values.append(("ro", nil)) }
        return values
    }

    fileprivate var attributes: UInt32 {
        (readOnly ? CLINUX_MOUNT_RDONLY : 0) | (nosuid ? CLINUX_MOUNT_NOSUID : 0)
            | (nodev ? CLINUX_MOUNT_NODEV : 0) | (noexec ? CLINUX_MOUNT_NOEXEC : 0)
    }
}
