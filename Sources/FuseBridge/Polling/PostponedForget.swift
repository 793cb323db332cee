// SPDX-License-Identifier: Apache-2.0
import CFuse
import Synchronization

/// A FORGET that was read, but is served only with the next request.
///
/// No client waits for a FORGET, but the file system below may free a file then, and the next request would wait for that.
/// After the answer to the next request, the client goes on, and there is time. Any thread may serve the FORGET: the next
/// request may block the thread that read it.
final class PostponedForget: Sendable {
    /// The message that the kernel wrote. `struct fuse_forget_in` is a number of lookups.
    private struct Message {
        var header: cfuse_in_header
        var lookups: UInt64
    }

    private static let size = MemoryLayout<Message>.size
    /// The requests that may be served before a FORGET.
    ///
    /// They need no room on the disk, and do not depend on whether an unlinked file is gone. `rmdir` does, where a file
    /// system below renames such a file.
    private static let bystanders = [CFUSE_LOOKUP, CFUSE_GETATTR, CFUSE_UNLINK].map { UInt32($0) }

    private let message = Mutex<Message?>(nil)
    /// Whether there is a FORGET, for callers that avoid the lock.
    private let isHeld = Atomic<Bool>(false)

    var isEmpty: Bool { !isHeld.load(ordering: .sequentiallyConsistent) }

    /// Takes a request if it is a FORGET and no FORGET is postponed; returns whether it did.
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

    /// Returns whether a request may be served before the FORGET.
    static func mayWait(for buffer: fuse_buf, _ received: CInt) -> Bool {
        guard received >= MemoryLayout<cfuse_in_header>.size, let bytes = buffer.mem else { return false }
        return bystanders.contains(bytes.load(as: cfuse_in_header.self).opcode)
    }

    /// Serves the FORGET, if there is one, and returns whether there was.
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
