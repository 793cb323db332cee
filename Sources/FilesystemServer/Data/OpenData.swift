// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem
import Synchronization

/// Opens the file below for a new handle, and checks that the handle may use it.
extension DataPlane {
    /// Selects the handle's data route, opens the file below if the daemon moves the data, and notes the file's baseline.
    ///
    /// For a new file, the caller passes the descriptor and the status that it got when it made the file.
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
            // A program that creates a file may open it for writing, whatever mode the file has.
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

    /// Checks before an open for writing that the file was not replaced or removed out of band. If it was, throws ESTALE: the
    /// kernel then looks the name up again and finds the file that has the name now.
    ///
    /// If the kernel sends the open a second time, a program opened the file by a descriptor, or other programs replace the
    /// file continuously. The second open succeeds. If the file then has no name, its contents are preserved after the writes,
    /// because no program can find them by a name.
    ///
    /// The link count alone is no proof of a name: some FUSE file systems always report 1 link.
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

    /// Updates the time of modification of a file that was truncated to the size it already had.
    ///
    /// On some file systems, truncate(2) to the present size does not update this time, although open(2) and ftruncate(2) do.
    /// The caller may be allowed to write to another user's file, but not to set its times. In this case the time stays
    /// unchanged, and the truncation still succeeds.
    func moveTime(of file: SharedDescriptor, from former: FileStatus.Time) {
        do throws(Errno) {
            guard try file.descriptor.status().modified == former else { return }
            try file.descriptor.changeTimes(accessed: .omit, modified: .now)
        } catch {
            return
        }
    }
}
