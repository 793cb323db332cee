// SPDX-License-Identifier: Apache-2.0
import Glibc
import LinuxSystem

/// The file that this process reads and writes for a handle.
extension Handle: DescriptorOwner {
    var hasDescriptor: Bool { file != nil }

    /// Whether a WRITE may come through this handle.
    var needsOrder: Bool { mayWrite && movesData }

    /// Stores the file that this process reads and writes for the handle. The handle is not in the table yet.
    func setFile(_ file: consuming OwnedDescriptor) {
        let shared = SharedFile(file, of: node.budget)
        moveData(through: shared)
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
        do throws(Errno) { try file.file.flush() } catch { oweFlush(error) }
    }

    /// Opens a dropped file again while that is still possible.
    func reopenDescriptor() throws(Errno) {
        if movesData { _ = try anyFile() }
    }

    /// The file through which an open file is truncated: its mode may not allow a new open.
    func openFile() throws(Errno) -> SharedFile? { movesData ? try anyFile() : file }

    /// A real descriptor also for files with passthrough, opened when first needed.
    func anyFile() throws(Errno) -> SharedFile {
        if let file { return file }
        // Copying from a file needs reading, changing it needs writing; the handle's own mode says which.
        let opened = SharedFile(try reopen(), of: node.budget)
        let kept = keep(opened)
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

extension Handle {
    /// The kernel marks opens by execve(2); from include/linux/fs.h, `__FMODE_EXEC`.
    private static let execution: Int32 = 0x20

    var isForExecution: Bool { flags & Self.execution != 0 }

    /// The flags for opening the file below, without those that were applied already.
    ///
    /// Each write says whether it goes to the end of the file; only an append-only file is opened with O_APPEND below.
    var flagsBelow: Int32 {
        let appending = isAppendOnly ? O_APPEND : 0
        return flags & (O_ACCMODE | O_SYNC | O_DSYNC | appending | OpenFlag.noAccessTime)
    }
}
