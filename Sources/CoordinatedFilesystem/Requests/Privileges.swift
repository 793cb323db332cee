// SPDX-License-Identifier: Apache-2.0
import FuseBridge
import Glibc
import LinuxSystem

/// Set-user-ID and set-group-ID, which end when somebody without the right to them changes the file.
///
/// The kernel below would see to it if the writer were not us. So this is for a daemon of root's only: any
/// other is below what its one user is.
extension CoordinatedFilesystem {
    /// Called when contents were changed in the name of `caller`.
    func stripPrivileges(of node: Node, writtenBy caller: Caller) throws(Errno) {
        guard caller.user != 0, Self.isRoot else { return }
        let descriptor = try node.descriptor()
        let status = try descriptor.descriptor.status()
        guard status.mode & (S_ISUID | S_ISGID) != 0 else { return }
        var kept = status.mode & ~S_ISUID
        // Without the right to execute, set-group-ID marked mandatory locking, which members may keep.
        if status.mode & S_IXGRP != 0 || !isMember(caller, of: status.group) { kept &= ~S_ISGID }
        if kept != status.mode { try descriptor.descriptor.changeMode(to: kept & 0o7777) }
    }

    /// Called when `caller` has set the access list of a file, and so its mode.
    func stripGroup(of node: Node, listedBy caller: Caller) throws(Errno) {
        guard caller.user != 0, Self.isRoot else { return }
        let descriptor = try node.descriptor()
        let status = try descriptor.descriptor.status()
        let kept = permitted(status.mode, group: status.group, to: caller)
        if kept != status.mode { try descriptor.descriptor.changeMode(to: kept & 0o7777) }
    }

    /// The mode `caller` may set on a file of `group`: set-group-ID is for members.
    func permitted(_ mode: UInt32, group: UInt32, to caller: Caller) -> UInt32 {
        guard mode & S_ISGID != 0, caller.user != 0, Self.isRoot, !isMember(caller, of: group) else {
            return mode
        }
        return mode & ~S_ISGID
    }

    private static let isRoot = geteuid() == 0

    private func isMember(_ caller: Caller, of group: UInt32) -> Bool {
        caller.group == group
            || processes.supplementaryGroups(ofThread: caller.thread).contains(group)
    }
}
