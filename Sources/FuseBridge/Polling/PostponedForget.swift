// SPDX-License-Identifier: Apache-2.0
import CFuse
import Synchronization

/// A FORGET that was read, and that is served only after the next request.
///
/// No client waits for the answer to a FORGET. But the file system below may free a file at a FORGET, and this would delay the
/// next request. After the answer to the next request there is time for the FORGET, because the client continues to run. The
/// next request may block the thread that has read the FORGET, so any thread may serve it.
final class PostponedForget: Sendable {
    /// The message from the kernel. After the header, it contains a number of look-ups (`struct fuse_forget_in`).
    private struct Message {
        var header: cfuse_in_header
        var lookups: UInt64
    }

    private static let size = MemoryLayout<Message>.size
    /// The requests that may be served before a postponed FORGET.
    ///
    /// These requests need no room on the disk. Their results are the same whether or not an unlinked file is already freed.
    /// `rmdir` is not among them: some file systems below rename an unlinked open file within its directory, so the directory
    /// is not empty.
    private static let bystanders = [CFUSE_LOOKUP, CFUSE_GETATTR, CFUSE_UNLINK].map { UInt32($0) }

    private let message = Mutex<Message?>(nil)
    /// Whether a FORGET is postponed. Callers read this without taking the lock.
    private let isHeld = Atomic<Bool>(false)

    var isEmpty: Bool { !isHeld.load(ordering: .sequentiallyConsistent) }

    /// Postpones a request if it is a FORGET and no FORGET is postponed yet. Returns whether the request was postponed.
    func take(_ buffer: fuse_buf, _ received: CInt) -> Bool {
        guard Int(received) == Self.size, let bytes = buffer.mem,
            bytes.load(as: cfuse_in_header.self).opcode == UInt32(CFUSE_FORGET)
        else { return false }
        return message.withLock { message in
            guard message == nil else { return false }
            message = bytes.load(as: Message.self)
            isHeld.store(true, ordering: .sequentiallyConsistent)
            return true
        }
    }

    /// Returns whether a postponed FORGET may wait until this request is served.
    static func mayWait(for buffer: fuse_buf, _ received: CInt) -> Bool {
        guard received >= MemoryLayout<cfuse_in_header>.size, let bytes = buffer.mem else { return false }
        return bystanders.contains(bytes.load(as: cfuse_in_header.self).opcode)
    }

    /// Serves the postponed FORGET. Returns whether there was one.
    @discardableResult
    func serve(_ session: OpaquePointer) -> Bool {
        guard !isEmpty else { return false }
        let message: Message? = message.withLock { message in
            isHeld.store(false, ordering: .relaxed)
            return message.take()
        }
        guard var taken = message else { return false }
        withUnsafeMutableBytes(of: &taken) { bytes in
            var buffer = fuse_buf()
            buffer.mem = bytes.baseAddress
            buffer.size = bytes.count
            fuse_session_process_buf(session, &buffer)
        }
        return true
    }
}
