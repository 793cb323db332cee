// SPDX-License-Identifier: Apache-2.0
import Glibc
import LinuxSystem

/// The open file below that the daemon reads and writes for a handle.
extension Handle: DescriptorOwner {
    var hasDescriptor: Bool { file != nil }

    /// Whether the kernel may send a WRITE by this handle. If so, the READ and WRITE requests of the file need an order.
    var needsOrder: Bool { mayWrite && movesData }

    /// Stores the file that the daemon reads and writes for the handle. Called before the handle enters the table.
    func setFile(_ file: consuming OwnedDescriptor) {
        let shared = SharedFile(file, of: node.budget)
        moveData(through: shared)
    }

    var closingThreads: LazyWorkerPool? { node.closingThreads }

    func dropDescriptor() -> Bool {
        guard let file else { return true }
        do throws(Errno) {
            // A program that has created a file may write to it, whatever mode the file has. The mode may forbid that the file
            // is opened again. So the descriptor is closed only if another open succeeds now.
            _ = try file.file.reopen(flags: flagsBelow)
        } catch {
            return false
        }
        flush(file)
        closeFile()
        return true
    }

    /// Makes a remote file system write the data that it has not written yet. An error is reported at close(2).
    private func flush(_ file: SharedFile) {
        guard hasErrorsAtClose else { return }
        do throws(Errno) { try file.file.flush() } catch { oweFlush(error) }
    }

    /// Opens a closed descriptor again, as long as the file can still be opened.
    func reopenDescriptor() throws(Errno) {
        if movesData { _ = try anyFile() }
    }

    /// The descriptor with which an open file is truncated. If the kernel moves the data, returns the descriptor only if it is
    /// open: the file's mode may not allow another open.
    func openFile() throws(Errno) -> SharedFile? { movesData ? try anyFile() : file }

    /// A descriptor of the file below, even for a file with passthrough. It is opened when a request first needs it.
    func anyFile() throws(Errno) -> SharedFile {
        if let file { return file }
        // Copying from a file needs a descriptor for reading, and changing the file needs a descriptor for writing. A
        // descriptor with the handle's access mode allows all that the program may do.
        let opened = SharedFile(try reopen(), of: node.budget)
        let kept = keep(opened)
        if kept === opened { node.budget.cached(.file(id)) }
        return kept
    }

    /// Opens the file below another time. A program that opened the file before it became append-only may continue to use it.
    private func reopen() throws(Errno) -> OwnedDescriptor {
        let descriptor = try node.descriptor()
        do throws(Errno) {
            return try descriptor.descriptor.reopen(flags: flagsBelow)
        } catch {
            guard error == .notPermitted, mayWrite, flagsBelow & O_APPEND == 0 else { throw error }
            return try descriptor.descriptor.reopen(flags: flagsBelow | O_APPEND)
        }
    }

    /// A descriptor for operations that do not change the file. Such operations are possible even if the file is now immutable,
    /// is being executed, or is not writable any more.
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
    /// Each WRITE request says whether its data goes to the end of the file. So O_APPEND is needed only for an append-only
    /// file.
    var flagsBelow: Int32 {
        let appending = isAppendOnly ? O_APPEND : 0
        return flags & (O_ACCMODE | O_SYNC | O_DSYNC | appending | OpenFlag.noAccessTime)
    }
}
