// SPDX-License-Identifier: Apache-2.0
import CFuse
import Synchronization

/// A FORGET that was read, but is served only when the next request is.
///
/// Nobody waits for it, but the file system below may free a file then, and who makes the next request would wait for that.
/// While the client goes on with the answer to that one there is time. Any thread may serve it: the one that read it may be kept
/// by the next request.
final class PostponedForget: Sendable {
    /// What the kernel wrote. `struct fuse_forget_in` is a number of lookups.
    private struct Message {
        var header: cfuse_in_header
        var lookups: UInt64
    }

    private static let size = MemoryLayout<Message>.size
    /// They neither need room on the disk nor care whether a file that lost its name is gone, as `rmdir` does where a
    /// file system below gives such a file another name.
    private static let bystanders = [CFUSE_LOOKUP, CFUSE_GETATTR, CFUSE_UNLINK].map { UInt32($0) }

    private let message = Mutex<Message?>(nil)
    /// Whether there is one, for those who had better not take the lock.
    private let isHeld = Atomic<Bool>(false)

    var isEmpty: Bool { !isHeld.load(ordering: .sequentiallyConsistent) }

    /// Takes a request, if it is a FORGET and there is none.
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

    /// Whether a request may be served before it.
    static func mayWait(for buffer: fuse_buf, _ received: CInt) -> Bool {
        guard received >= MemoryLayout<cfuse_in_header>.size, let bytes = buffer.mem else { return false }
        return bystanders.contains(bytes.load(as: cfuse_in_header.self).opcode)
    }

    /// Serves it, if there is one. Returns whether there was.
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
