// SPDX-License-Identifier: Apache-2.0
import Coordination
import FuseBridge
import Glibc
import LinuxSystem

/// Removes the set-user-ID and set-group-ID bits of a file when a caller changes the file without the right to these bits.
///
/// The file system below removes the bits only if the writer is not root. So only a daemon that runs as root needs this
/// extension.
extension DataPlane {
    /// Removes the set-user-ID and set-group-ID bits after the file's contents were changed for `caller`.
    func stripPrivileges(of node: Node, writtenBy caller: Caller) throws(Errno) {
        guard caller.user != 0, Self.isRoot else { return }
        let descriptor = try node.descriptor()
        let status = try descriptor.descriptor.status()
        let kept = modeKept(status, by: caller)
        if kept != status.mode { try descriptor.descriptor.changeMode(to: kept & 0o7777) }
    }

    /// Removes the set-user-ID and set-group-ID bits after a SETATTR request that sets no attribute. The kernel sends this
    /// request at the first write to the file, and for a chown(2) without a new owner.
    ///
    /// The kernel does not check the caller's permission for this request, so the daemon checks it. The file's owner is allowed
    /// to send it, and so is a caller that has the file open for writing.
    func stripPrivileges(of node: Node, touchedBy caller: Caller) throws(Errno) {
        guard caller.user != 0, Self.isRoot else { return }
        let status = try node.descriptor().descriptor.status()
        guard modeKept(status, by: caller) != status.mode else { return }
        guard status.user == caller.user || hasOpenToWrite(node, caller) else { throw .notPermitted }
        try stripPrivileges(of: node, writtenBy: caller)
    }

    private func modeKept(_ status: FileStatus, by caller: Caller) -> UInt32 {
        guard status.mode & (S_ISUID | S_ISGID) != 0, !status.isDirectory else { return status.mode }
        let kept = status.mode & ~S_ISUID
        // If the group cannot execute the file, the set-group-ID bit once meant mandatory locking. In this case the bit
        // is not removed for members of the group.
        let losesGroup = status.mode & S_IXGRP != 0 || !isMember(caller, of: status.group)
        return losesGroup ? kept & ~S_ISGID : kept
    }

    /// Whether the caller may have a descriptor by which a process opened the file for writing.
    ///
    /// The process may be the caller's own process, an ancestor, another process of the caller's user, or a process that has
    /// ended.
    private func hasOpenToWrite(_ node: Node, _ caller: Caller) -> Bool {
        let writers = handles.writers(on: node)
        guard !writers.isEmpty else { return false }
        let own = processes.currentParty(ofThread: caller.thread)
        return writers.contains { writer in
            let party = writer.identify()
            return party.process == nil || party.user == caller.user || own.isExempt(from: party)
        }
    }

    /// Removes the set-group-ID bit after `caller` has set the file's access control list, because setting the list also sets
    /// the mode.
    func stripGroup(of node: Node, listedBy caller: Caller) throws(Errno) {
        guard caller.user != 0, Self.isRoot else { return }
        let descriptor = try node.descriptor()
        let status = try descriptor.descriptor.status()
        let kept = permitted(status.mode, group: status.group, to: caller)
        if kept != status.mode { try descriptor.descriptor.changeMode(to: kept & 0o7777) }
    }

    /// The mode that `caller` may set on a file of the group. Only members of the group may set the set-group-ID bit.
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
