// SPDX-License-Identifier: Apache-2.0
import CFuse
import Glibc
package import LinuxSystem
import Synchronization

/// Names a backing file to the kernel: the file that holds the data of another file.
package struct BackingID: Sendable {
    package let rawValue: Int32
}

/// The calls to the kernel that belong to no reply.
package final class Connection: @unchecked Sendable {
    // @unchecked: libfuse's notifications may be sent from any thread, and the descriptor is immutable.
    private let session: OpaquePointer
    /// A duplicate: libfuse closes the session's descriptor when it unmounts, and the number may be reused.
    private let device: OwnedDescriptor
    private let backings = Atomic<Int>(0)

    init(of session: OpaquePointer) throws(Errno) {
        self.session = session
        self.device = try .duplicating(fuse_session_fd(session))
    }

    /// The number that the kernel gives the connection, or nil if the kernel does not tell it.
    ///
    /// It is the minor number of the file system's device.
    package var number: UInt32? {
        guard let text = readSmallFile("/proc/self/fdinfo/\(device.rawValue)") else { return nil }
        let label = "fuse_connection:"
        let line = String(decoding: text, as: UTF8.self).split(separator: "\n").first { $0.hasPrefix(label) }
        return line.flatMap { UInt32($0.dropFirst(label.count).filter(\.isNumber)) }
    }

    /// Registers the file behind `descriptor` as a backing file while `reply` is unanswered; an `O_PATH` descriptor is
    /// enough.
    package func openBacking(
        _ descriptor: borrowing OwnedDescriptor, for reply: borrowing Reply
    ) throws(Errno) -> BackingID {
        let result = cfuse_backing_open(reply.request, device.rawValue, descriptor.rawValue)
        return try noteBacking(result)
    }

    /// Makes the kernel hold the file behind `descriptor` open until ``closeBacking(_:)``, even if no process has it open.
    package func retainBacking(_ descriptor: borrowing OwnedDescriptor) throws(Errno) -> BackingID {
        let result = cfuse_backing_keep(device.rawValue, descriptor.rawValue)
        return try noteBacking(result)
    }

    private func noteBacking(_ result: Int32) throws(Errno) -> BackingID {
        guard result > 0 else { throw Errno(rawValue: -result) }
        backings.add(1, ordering: .relaxed)
        return BackingID(rawValue: result)
    }

    /// The number of files that the kernel holds open for this process.
    package var backingFiles: Int { backings.load(ordering: .relaxed) }

    package func closeBacking(_ backing: BackingID) {
        backings.subtract(1, ordering: .relaxed)
        cfuse_backing_close(device.rawValue, backing.rawValue)
    }

    /// Makes the kernel ask for the attributes of an inode again.
    ///
    /// Takes no inode lock, so callers may use it while a request holds the lock of the directory.
    package func invalidateAttributes(of node: NodeID) {
        _ = fuse_lowlevel_notify_inval_inode(session, node.rawValue, -1, 0)
    }

    /// Makes the kernel drop the attributes and the page cache of an inode.
    ///
    /// Waits for pages that are being read or written, so threads that serve requests must not call it.
    package func invalidateContents(of node: NodeID) {
        _ = fuse_lowlevel_notify_inval_inode(session, node.rawValue, 0, 0)
    }

    /// Makes the kernel drop the attributes of an inode, and its page cache in a range.
    package func invalidateContents(of node: NodeID, in bytes: Range<Int64>) {
        _ = fuse_lowlevel_notify_inval_inode(
            session, node.rawValue, off_t(bytes.lowerBound), off_t(bytes.upperBound - bytes.lowerBound))
    }

    /// Makes the kernel look up a name again.
    ///
    /// Waits for the lock of the directory, which a request may hold. So neither threads that serve requests, nor callers
    /// with a lock that such a thread takes, may call it.
    package func invalidateEntry(_ name: borrowing FileName, in parent: NodeID) {
        _ = fuse_lowlevel_notify_inval_entry(session, parent.rawValue, name.bytes, strlen(name.bytes))
    }
}
