// SPDX-License-Identifier: Apache-2.0
import FuseBridge
import LinuxSystem
import Synchronization

/// Reopens the descriptors that nodes have given up. The route depends on the node:
/// - A file that is not open: by its parent and name. An open file must not lose its name to another one.
/// - An open file: by its file handle. If it has no name, the kernel must keep it in existence.
/// - An open file without a file handle: by its only name. Before the mount removes that name, it opens the descriptor.
extension Node {
    /// Opens the node by a handle. Nil if the handle does not lead to it; its name still may.
    func find(by fileHandle: PersistentFileHandle) -> SharedDescriptor? {
        do throws(Errno) {
            let opened = try budget.path(of: fileHandle)
            guard FileKey(try opened.status()) == key else { return nil }
            return cache(SharedDescriptor(opened, of: budget))
        } catch {
            return nil
        }
    }

    var hasFileHandle: Bool { state.withLock { $0.fileHandle != nil } }

    /// Stores a file handle. Requests by node number then still work without a valid name.
    func noteFileHandle(_ fileHandle: PersistentFileHandle?) {
        state.withLock { if $0.fileHandle == nil { $0.fileHandle = fileHandle } }
    }

    var closingThreads: LazyWorkerPool? { isDistant ? threads(for: .work) : nil }

    func dropDescriptor() -> Bool {
        guard !isRoot else { return false }
        let (descriptor, isInUse) = state.withLock { ($0.descriptor, $0.pins > 0 || $0.isOrphan) }
        let isAlone = isInUse ? descriptor.map { prepareReturn(through: $0) } ?? false : false
        let dropped: SharedDescriptor?? = state.withLock { state in
            guard state.canReopen(isAlone: isAlone) else { return nil }
            return .some(state.descriptor.take())
        }
        return dropped != nil
    }

    /// Notes how to find a file in use again. Returns whether it has only one name.
    private func prepareReturn(through descriptor: SharedDescriptor) -> Bool {
        let fileHandle = state.withLock { $0.fileHandle } ?? budget.fileHandle(of: descriptor, known: key)
        let (isOrphan, backing) = state.withLock { state in
            state.fileHandle = fileHandle
            return (state.isOrphan, state.backing)
        }
        do throws(Errno) {
            // A handle leads to a file without names only while the file is open. A backing file of the kernel suffices.
            if isOrphan, fileHandle != nil, backing == nil {
                retainBacking(try connection.retainBacking(descriptor.descriptor))
            }
            return try descriptor.descriptor.status().linkCount <= 1
        } catch {
            // The descriptor stays open.
            return false
        }
    }

    /// Makes the kernel hold the file below, without a descriptor of the daemon, until it forgets the inode or opens the
    /// file again.
    private func retainBacking(_ opened: BackingID) {
        let needless: BackingID? = state.withLock { state in
            guard state.backing == nil else { return opened }
            state.backing = opened
            state.isBackingOutdated = true
            return nil
        }
        if let needless { connection.closeBacking(needless) }
    }
}

extension Node.State {
    /// Whether the file can be found again without its descriptor. `isAlone` means that it has no other name.
    fileprivate func canReopen(isAlone: Bool) -> Bool {
        if pins == 0, !isOrphan { return true }
        if isOrphan { return fileHandle != nil && backing != nil }
        // If the mount removes the last name, it opens the descriptor first.
        return fileHandle != nil || (hasName && isAlone)
    }
}
