// SPDX-License-Identifier: Apache-2.0
import Glibc
package import LinuxSystem

/// Finds mounts by the kernel's own table.
package enum MountFinder {
    package static func table() throws(ClientFailure) -> MountTable {
        do throws(Errno) {
            return StandInMount.added(to: try MountTable.current())
        } catch {
            throw ClientFailure(.failed, "the mount table /proc/self/mountinfo cannot be read: \(error)")
        }
    }

    /// The mount of ours that a path lies in.
    package static func mount(holding path: [UInt8]) throws(ClientFailure) -> MountEntry {
        try MountedPath(path).mount
    }

    /// A mount answers its own user and root, and nobody else may unmount it.
    package static func checkOwner(of mount: MountEntry) throws(ClientFailure) {
        guard !mayConnect(mount), let owner = mount.user else { return }
        throw ClientFailure(
            .denied,
            "the mount at '\(mount.mountpoint.printable)' belongs to user \(owner); ask that user, or root")
    }

    package static func mayConnect(_ mount: MountEntry) -> Bool {
        guard let owner = mount.user else { return true }
        return geteuid() == 0 || owner == geteuid()
    }

    /// A mount by root that others may use answers them as well, as far as their rights to files go.
    static func checkMayConnect(_ mount: MountEntry) throws(ClientFailure) {
        let isShared = mount.user == 0 && mount.fileSystemOptions.contains("allow_other")
        if !isShared { try checkOwner(of: mount) }
    }
}
