// SPDX-License-Identifier: Apache-2.0
import FuseBridge
import LinuxSystem
import Synchronization

/// How a node that lets its descriptor go is reached again.
///
/// By its parent and name, as long as nobody has it open: a stranger may take the name. By its file handle otherwise, for
/// which a file without names must be kept by the kernel. Where there are no handles, a file that is open goes by a name
/// that is its only one: when that goes, through us, the descriptor is taken along first.
extension Node {
    /// Nothing if the handle does not lead to it; its name may still.
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

    /// Who asks for it by its number may go on doing so when its name is out of date, and has it known by no name.
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

    /// Notes how to find a file again that is in use. Returns whether its name is the only one it has.
    private func prepareReturn(through descriptor: SharedDescriptor) -> Bool {
        let fileHandle = state.withLock { $0.fileHandle } ?? budget.fileHandle(of: descriptor, known: key)
        let (isOrphan, backing) = state.withLock { state in
            state.fileHandle = fileHandle
            return (state.isOrphan, state.backing)
        }
        do throws(Errno) {
            // A handle leads to a file without names as long as somebody has it open, and the kernel will do.
            if isOrphan, fileHandle != nil, backing == nil {
                retainBacking(try connection.retainBacking(descriptor.descriptor))
            }
            return try descriptor.descriptor.status().linkCount <= 1
        } catch {
            // The descriptor stays.
            return false
        }
    }

    /// Has the kernel keep the file below without a descriptor of ours, until it forgets the inode or the file is opened again.
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
    /// Whether the file is found again without its descriptor; `isAlone` says that it has no other name.
    fileprivate func canReopen(isAlone: Bool) -> Bool {
        if pins == 0, !isOrphan { return true }
        if isOrphan { return fileHandle != nil && backing != nil }
        // A name that goes through us takes the descriptor along first, if it is the last.
        return fileHandle != nil || (hasName && isAlone)
    }
}
