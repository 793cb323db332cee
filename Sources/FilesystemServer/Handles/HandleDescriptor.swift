// SPDX-License-Identifier: Apache-2.0
import Glibc
import LinuxSystem

/// The open file below that the daemon reads and writes for a handle.
extension Handle: DescriptorOwner {
    var hasDescriptor: Bool { file != nil }

    /// Whether the kernel may send a WRITE through this handle, so that the file's requests need an order.
    var needsOrder: Bool { mayWrite && movesData }

    /// Stores the file that the daemon reads and writes for the handle. It is called before the handle enters the table.
    func setFile(_ file: consuming OwnedDescriptor) {
        let shared = SharedFile(file, of: node.budget)
        moveData(through: shared)
    }

    var closingThreads: LazyWorkerPool? { node.closingThreads }

    func dropDescriptor() -> Bool {
        guard let file else { return true }
        do throws(Errno) {
            // A program that has created a file may write to it, whatever mode the file has. A new open may not be allowed. So
            // the descriptor is closed only if a new open succeeds.
            _ = try file.file.reopen(flags: flagsBelow)
        } catch {
            return false
        }
        flush(file)
        closeFile()
        return true
    }

    /// Writes back what a remote file system has not written yet. An error is reported at close(2).
    private func flush(_ file: SharedFile) {
        guard hasErrorsAtClose else { return }
        do throws(Errno) { try file.file.flush() } catch { oweFlush(error) }
    }

    /// Opens a closed descriptor again, as long as the file can still be opened.
    func reopenDescriptor() throws(Errno) {
        if movesData { _ = try anyFile() }
    }

    /// The descriptor for truncating an open file. Where the kernel moves the data, the descriptor is not opened for this,
    /// because the file's mode may not allow it.
    func openFile() throws(Errno) -> SharedFile? { movesData ? try anyFile() : file }

    /// A descriptor of the file below, also for a file with passthrough. It is opened when it is first needed.
    func anyFile() throws(Errno) -> SharedFile {
        if let file { return file }
        // Copying from a file needs a descriptor for reading, and changing the file needs one for writing. The handle's own
        // access mode is right in both cases.
        let opened = SharedFile(try reopen(), of: node.budget)
        let kept = keep(opened)
        if kept === opened { node.budget.cached(.file(id)) }
        return kept
    }

    /// Opens the file below again. A program that opened the file before it became append-only may continue to use it.
    private func reopen() throws(Errno) -> OwnedDescriptor {
        let descriptor = try node.descriptor()
        do throws(Errno) {
            return try descriptor.descriptor.reopen(flags: flagsBelow)
        } catch {
            guard error == .notPermitted, mayWrite, flagsBelow & O_APPEND == 0 else { throw error }
            return try descriptor.descriptor.reopen(flags: flagsBelow | O_APPEND)
        }
    }

    /// A descriptor for operations that change nothing. They are possible even if the file is immutable now, is being executed,
    /// or may not be written any more.
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
    /// The flag by which the kernel marks opens by execve(2); `__FMODE_EXEC` in include/linux/fs.h.
    private static let execution: Int32 = 0x20

    var isForExecution: Bool { flags & Self.execution != 0 }

    /// The flags for opening the file below, without those that were needed only at the first open.
    ///
    /// Each WRITE request contains whether the data goes to the end of the file. So the file below is opened with O_APPEND only
    /// if it is append-only.
    var flagsBelow: Int32 {
        let appending = isAppendOnly ? O_APPEND : 0
        return flags & (O_ACCMODE | O_SYNC | O_DSYNC | appending | OpenFlag.noAccessTime)
    }
}
