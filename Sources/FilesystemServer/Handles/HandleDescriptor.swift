// SPDX-License-Identifier: Apache-2.0
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization

/// The file that this process reads and writes for a handle.
extension Handle: DescriptorOwner {
    var file: SharedFile? { state.withLock { $0.descriptor } }
    var hasDescriptor: Bool { file != nil }

    /// Whether a WRITE may come through this handle.
    var needsOrder: Bool { mayWrite && state.withLock { $0.movesData } }

    /// Stores the file that this process reads and writes for the handle. The handle is not in the table yet.
    func setFile(_ file: consuming OwnedDescriptor) {
        let shared = SharedFile(file, of: node.budget)
        state.withLock { ($0.descriptor, $0.movesData) = (shared, true) }
    }

    var closingThreads: LazyWorkerPool? { node.closingThreads }

    func dropDescriptor() -> Bool {
        guard let file else { return true }
        do throws(Errno) {
            // The creator could open the file then, but perhaps no program can now.
            _ = try file.file.reopen(flags: flagsBelow)
        } catch {
            return false
        }
        flush(file)
        closeFile()
        return true
    }

    /// Flushes delayed writes of a remote file system. An error is reported at close(2).
    private func flush(_ file: SharedFile) {
        guard hasErrorsAtClose else { return }
        do throws(Errno) { try file.file.flush() } catch { state.withLock { $0.owedError = error } }
    }

    /// A thread that is using the file holds it open until it is done.
    func closeFile(forGood: Bool = false) {
        let file = state.withLock { state in
            if forGood { state.isClosed = true }
            return state.descriptor.take()
        }
        withExtendedLifetime(file) {}
    }

    /// Opens a dropped file again while that is still possible.
    func reopenDescriptor() throws(Errno) {
        if state.withLock({ $0.movesData }) { _ = try anyFile() }
    }

    /// The file through which an open file is truncated: its mode may not allow a new open.
    func openFile() throws(Errno) -> SharedFile? { state.withLock { $0.movesData } ? try anyFile() : file }

    func takeOwedError() -> Errno? { state.withLock { $0.owedError.take() } }

    /// A real descriptor also for files with passthrough, opened when first needed.
    func anyFile() throws(Errno) -> SharedFile {
        if let file { return file }
        // Copying from a file needs reading, changing it needs writing; the handle's own mode says which.
        let opened = SharedFile(try reopen(), of: node.budget)
        let kept = state.withLock { state in
            if let file = state.descriptor { return file }
            if !state.isClosed { state.descriptor = opened }
            return opened
        }
        if kept === opened { node.budget.cached(.file(id)) }
        return kept
    }

    /// An opener from before the file became append-only may go on.
    private func reopen() throws(Errno) -> OwnedDescriptor {
        let descriptor = try node.descriptor()
        do throws(Errno) {
            return try descriptor.descriptor.reopen(flags: flagsBelow)
        } catch {
            guard error == .notPermitted, mayWrite, flagsBelow & O_APPEND == 0 else { throw error }
            return try descriptor.descriptor.reopen(flags: flagsBelow | O_APPEND)
        }
    }

    /// A descriptor for operations that change nothing. They stay possible after the file became immutable, is executed, or may
    /// not be written any more.
    func fileToLookAt() throws(Errno) -> SharedFile {
        do throws(Errno) {
            return try anyFile()
        } catch {
            guard [EPERM, EACCES, EROFS, ETXTBSY].contains(error.rawValue) else { throw error }
            return SharedFile(try node.descriptor().descriptor.reopen(flags: O_RDONLY), of: node.budget)
        }
    }
}
