// SPDX-License-Identifier: Apache-2.0
import CFuse
import Glibc
package import LinuxSystem
import Synchronization

/// Names a file to the kernel as the one that holds another's data.
package struct BackingID: Sendable {
    package let rawValue: Int32
}

/// What can be asked of the kernel outside of any reply.
package final class Connection: @unchecked Sendable {
    // @unchecked: libfuse's notifications may be sent from any thread, and the descriptor is immutable.
    private let session: OpaquePointer
    /// Our own, because libfuse closes the session's when it unmounts and the number may be reused.
    private let device: OwnedDescriptor
    private let backings = Atomic<Int>(0)

    init(of session: OpaquePointer) throws(Errno) {
        self.session = session
        self.device = try .duplicating(fuse_session_fd(session))
    }

    /// The number that the kernel gives the connection, which is the minor one of its file system's device. Nil if it does not tell.
    package var number: UInt32? {
        guard let text = readSmallFile("/proc/self/fdinfo/\(device.rawValue)") else { return nil }
        let label = "fuse_connection:"
        let line = String(decoding: text, as: UTF8.self).split(separator: "\n").first { $0.hasPrefix(label) }
        return line.flatMap { UInt32($0.dropFirst(label.count).filter(\.isNumber)) }
    }

    /// Registers the file behind `descriptor`, for which `O_PATH` is enough, while `reply` is owed.
    package func openBacking(
        _ descriptor: borrowing OwnedDescriptor, for reply: borrowing Reply
    ) throws(Errno) -> BackingID {
        let result = cfuse_backing_open(reply.request, device.rawValue, descriptor.rawValue)
        return try noteBacking(result)
    }

    /// Has the kernel keep the file behind `descriptor` until ``closeBacking(_:)``, though nobody may have it open.
    package func retainBacking(_ descriptor: borrowing OwnedDescriptor) throws(Errno) -> BackingID {
        let result = cfuse_backing_keep(device.rawValue, descriptor.rawValue)
        return try noteBacking(result)
    }

    private func noteBacking(_ result: Int32) throws(Errno) -> BackingID {
        guard result > 0 else { throw Errno(rawValue: -result) }
        backings.add(1, ordering: .relaxed)
        return BackingID(rawValue: result)
    }

    /// How many files the kernel keeps open for this process.
    package var backingFiles: Int { backings.load(ordering: .relaxed) }

    package func closeBacking(_ backing: BackingID) {
        backings.subtract(1, ordering: .relaxed)
        cfuse_backing_close(device.rawValue, backing.rawValue)
    }

    /// Makes the kernel ask for the attributes of an inode again.
    ///
    /// Takes no inode lock, so it may be called while a request holds the directory's.
    package func invalidateAttributes(of node: NodeID) {
        _ = fuse_lowlevel_notify_inval_inode(session, node.rawValue, -1, 0)
    }

    /// The same, and for what it keeps of the contents. Waits for pages that are being read or written, so it must not be
    /// called on a thread that serves requests.
    package func invalidateContents(of node: NodeID) {
        _ = fuse_lowlevel_notify_inval_inode(session, node.rawValue, 0, 0)
    }

    /// The same, and for what it keeps of some of the contents.
    package func invalidateContents(of node: NodeID, in bytes: Range<Int64>) {
        _ = fuse_lowlevel_notify_inval_inode(
            session, node.rawValue, off_t(bytes.lowerBound), off_t(bytes.upperBound - bytes.lowerBound))
    }

    /// Makes the kernel look up a name again. Waits for the directory's lock, which a request may hold: so it must not be
    /// called on a thread that serves requests, nor under a lock that serving one takes.
    package func invalidateEntry(_ name: borrowing FileName, in parent: NodeID) {
        _ = fuse_lowlevel_notify_inval_entry(session, parent.rawValue, name.bytes, strlen(name.bytes))
    }
}
