// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem
import Synchronization

/// Makes the data of a file reachable for a handle that is about to be open.
extension DataPlane {
    /// Makes the handle's data reachable, and notes the file's status before it can change.
    ///
    /// For a new file both are known: its descriptor and its status at creation.
    func beginData(
        of handle: Handle, through descriptor: SharedDescriptor, created: consuming OwnedDescriptor? = nil,
        looking former: FileStatus? = nil, for reply: borrowing Reply
    ) throws(Errno) -> DataRoute {
        var known = former
        let isNew = created != nil
        if handle.mayWrite || handle.truncates {
            let status = if let former { former } else { try descriptor.descriptor.status() }
            known = status
            if !isNew { try checkName(of: handle, status) }
            // The creator of a file may open it, whatever its mode says.
            if isNew {
                lastOpenedToWrite.store(Engine.now.nanoseconds, ordering: .relaxed)
            } else {
                try checkProtection(status, of: handle, through: descriptor)
            }
            handle.noteBaseline(status, isRacy: context.isTimeRacy(status))
        }
        let route = try enterRoute(handle, through: descriptor, knowing: known, isNew: isNew, for: reply)
        do throws(Errno) {
            if case .backing = route {
                try checkMapping(of: handle)
                handle.noteMapping(mayOutlive: mayOutlive(handle, isNew: isNew))
            }
            if case .daemon = route {
                let file: OwnedDescriptor
                if let created = created.take() {
                    file = created
                } else {
                    file = try descriptor.descriptor.reopen(flags: handle.flagsBelow)
                }
                handle.setFile(file)
            }
        } catch {
            leaveRoute(handle)
            throw error
        }
        return route
    }

    /// Checks that the file was not replaced or removed out of band before an open by name writes to it. If it was, the kernel
    /// looks the name up again and finds the present file.
    ///
    /// A second open came by a descriptor, or other programs replace the file too fast. If its file has no name, no program
    /// will find its writes, so they are preserved.
    ///
    /// Some file systems outside of the kernel do not count links.
    private func checkName(of handle: Handle, _ status: FileStatus) throws(Errno) {
        let node = handle.node
        guard node.hasName, node.isMachineLocal else { return }
        let isGone = status.linkCount == 0
        guard isGone || sourceWatch.isRenamedOutOfBand(node) else { return }
        if handle.isRetry || handle.thread == 0 || ProcessInspection.isKernelThread(handle.thread) {
            if isGone { handle.becomeOrphanWriter() }
            return
        }
        node.parent?.noteStaleBelow()
        throw .stale
    }

    func truncate(
        _ handle: Handle, through descriptor: SharedDescriptor, for caller: Caller
    ) throws(Errno) {
        let own = sourceWatch.noteOwn(handle.node, .contents)
        let former = handle.baseline?.stamp
        try descriptor.descriptor.truncate(to: 0)
        if let former, former.size == 0 { moveTime(of: descriptor, from: former.modified) }
        sourceWatch.finishOwnChange(handle.node, own)
        try stripPrivileges(of: handle.node, writtenBy: caller)
        let status = try descriptor.descriptor.status()
        handle.noteBaseline(status, isRacy: context.isTimeRacy(status))
    }

    /// Updates the time of a file that was cut to the size it had. On some file systems truncate(2) does not update it then,
    /// but open(2) and ftruncate(2) do. A caller that may write to another user's file may not set its time; then the time
    /// stays, and the truncation still succeeds.
    func moveTime(of file: SharedDescriptor, from former: FileStatus.Time) {
        do throws(Errno) {
            guard try file.descriptor.status().modified == former else { return }
            try file.descriptor.changeTimes(accessed: .omit, modified: .now)
        } catch {
            return
        }
    }
}
