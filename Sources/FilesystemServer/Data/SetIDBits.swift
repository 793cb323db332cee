// SPDX-License-Identifier: Apache-2.0
import Coordination
import FuseBridge
import Glibc
import LinuxSystem

/// Removes set-user-ID and set-group-ID bits when a caller without the right to them changes the file.
///
/// The file system below would do so for other writers, but not for root. So only a daemon of root's needs this: any other
/// daemon writes as its own user.
extension DataPlane {
    /// Called after contents were changed on behalf of `caller`.
    func stripPrivileges(of node: Node, writtenBy caller: Caller) throws(Errno) {
        guard caller.user != 0, Self.isRoot else { return }
        let descriptor = try node.descriptor()
        let status = try descriptor.descriptor.status()
        let kept = modeKept(status, by: caller)
        if kept != status.mode { try descriptor.descriptor.changeMode(to: kept & 0o7777) }
    }

    /// Called for a SETATTR that names no attribute: a first write, or a chown(2) without a new owner. The kernel leaves
    /// the permission check to the daemon. The writer of an open file and the owner are allowed.
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
        // Without the right to execute, set-group-ID marked mandatory locking. Members of the group may keep it.
        let losesGroup = status.mode & S_IXGRP != 0 || !isMember(caller, of: status.group)
        return losesGroup ? kept & ~S_ISGID : kept
    }

    /// Whether the file is open for writing by a process from which the caller may have its descriptor. That is its own
    /// process, an ancestor, another process of its user, or one that has ended.
    private func hasOpenToWrite(_ node: Node, _ caller: Caller) -> Bool {
        let writers = handles.writers(on: node)
        guard !writers.isEmpty else { return false }
        let own = processes.currentParty(ofThread: caller.thread)
        return writers.contains { writer in
            let party = writer.identify()
            return party.process == nil || party.user == caller.user || own.isExempt(from: party)
        }
    }

    /// Called when `caller` has set the access list of a file, and so its mode.
    func stripGroup(of node: Node, listedBy caller: Caller) throws(Errno) {
        guard caller.user != 0, Self.isRoot else { return }
        let descriptor = try node.descriptor()
        let status = try descriptor.descriptor.status()
        let kept = permitted(status.mode, group: status.group, to: caller)
        if kept != status.mode { try descriptor.descriptor.changeMode(to: kept & 0o7777) }
    }

    /// The mode that `caller` may set on a file of `group`: set-group-ID is for members.
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
