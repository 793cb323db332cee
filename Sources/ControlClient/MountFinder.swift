// SPDX-License-Identifier: Apache-2.0
import Glibc
package import LinuxSystem

/// Finds Truce mounts in the kernel's mount table, and checks whether the user may use their sockets.
package enum MountFinder {
    package static func table() throws(ClientFailure) -> MountTable {
        do throws(Errno) {
            return StandInMount.added(to: try MountTable.current())
        } catch {
            throw ClientFailure(.failed, "the mount table /proc/self/mountinfo cannot be read: \(error)")
        }
    }

    /// Finds the Truce mount that contains a path; throws if there is none.
    package static func mount(holding path: [UInt8]) throws(ClientFailure) -> MountEntry {
        try MountedPath(path).mount
    }

    /// Throws unless the caller's user is root or the owner of the mount. Other users may not unmount the mount, and get no
    /// answers from it unless it is shared.
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

    /// Throws if the caller's user may not connect to the mount. Users other than root and the owner may connect only to a
    /// mount that root made with `allow_other`.
    static func checkMayConnect(_ mount: MountEntry) throws(ClientFailure) {
        let isShared = mount.user == 0 && mount.fileSystemOptions.contains("allow_other")
        if !isShared { try checkOwner(of: mount) }
    }
}
