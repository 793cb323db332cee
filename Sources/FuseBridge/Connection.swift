// SPDX-License-Identifier: Apache-2.0
import CFuse
import Glibc
package import LinuxSystem
import Synchronization

/// The number by which the kernel knows a backing file. The kernel reads and writes the data of a mounted file in this file
/// below.
package struct BackingID: Sendable {
    package let rawValue: Int32
}

/// Sends messages to the kernel that are not answers to requests.
package final class Connection: @unchecked Sendable {
    // @unchecked: libfuse's notifications may be sent from any thread, and the descriptor is immutable.
    private let session: OpaquePointer
    /// A duplicate of the session's descriptor. At the unmount, libfuse closes its own descriptor, and the kernel may then give
    /// the number of that descriptor to another file.
    private let device: OwnedDescriptor
    private let backings = Atomic<Int>(0)

    init(of session: OpaquePointer) throws(Errno) {
        self.session = session
        self.device = try .duplicating(fuse_session_fd(session))
    }

    /// The number that the kernel gives to the connection; nil if the kernel does not report it.
    ///
    /// The number is the minor number of the mounted file system's device.
    package var number: UInt32? {
        guard let text = readSmallFile("/proc/self/fdinfo/\(device.rawValue)") else { return nil }
        let label = "fuse_connection:"
        let line = String(decoding: text, as: UTF8.self).split(separator: "\n").first { $0.hasPrefix(label) }
        return line.flatMap { UInt32($0.dropFirst(label.count).filter(\.isNumber)) }
    }

    /// Registers the file behind `descriptor` as a backing file. The caller must not have used `reply` for an answer yet. An
    /// `O_PATH` descriptor is enough.
    package func openBacking(
        _ descriptor: borrowing OwnedDescriptor, for reply: borrowing Reply
    ) throws(Errno) -> BackingID {
        let result = cfuse_backing_open(reply.request, device.rawValue, descriptor.rawValue)
        return try noteBacking(result)
    }

    /// Makes the kernel hold the file behind `descriptor` open, even if no process has the file open. The kernel holds the file
    /// until ``closeBacking(_:)`` is called.
    package func retainBacking(_ descriptor: borrowing OwnedDescriptor) throws(Errno) -> BackingID {
        let result = cfuse_backing_keep(device.rawValue, descriptor.rawValue)
        return try noteBacking(result)
    }

    private func noteBacking(_ result: Int32) throws(Errno) -> BackingID {
        guard result > 0 else { throw Errno(rawValue: -result) }
        backings.add(1, ordering: .relaxed)
        return BackingID(rawValue: result)
    }

    /// The number of backing files that the kernel holds open for the daemon.
    package var backingFiles: Int { backings.load(ordering: .relaxed) }

    package func closeBacking(_ backing: BackingID) {
        backings.subtract(1, ordering: .relaxed)
        cfuse_backing_close(device.rawValue, backing.rawValue)
    }

    /// Makes the kernel drop the attributes of an inode. The kernel then asks for the attributes when it needs them.
    ///
    /// The kernel takes no inode lock for this. So this function may be called while a request holds the lock of the directory.
    package func invalidateAttributes(of node: NodeID) {
        _ = fuse_lowlevel_notify_inval_inode(session, node.rawValue, -1, 0)
    }

    /// Makes the kernel drop the attributes and the page cache of an inode.
    ///
    /// The call waits for pages that are being read or written. So a thread that serves requests must not make the call.
    package func invalidateContents(of node: NodeID) {
        _ = fuse_lowlevel_notify_inval_inode(session, node.rawValue, 0, 0)
    }

    /// Makes the kernel drop the attributes of an inode, and its page cache for a range of the file.
    package func invalidateContents(of node: NodeID, in bytes: Range<Int64>) {
        _ = fuse_lowlevel_notify_inval_inode(
            session, node.rawValue, off_t(bytes.lowerBound), off_t(bytes.upperBound - bytes.lowerBound))
    }

    /// Makes the kernel drop a name from its cache. The kernel then looks the name up when it needs the name.
    ///
    /// The call waits for the lock of the directory, which a request may hold. So a thread that serves requests must not make
    /// the call. The caller must not hold a lock that a serving thread may take.
    package func invalidateEntry(_ name: borrowing FileName, in parent: NodeID) {
        _ = fuse_lowlevel_notify_inval_entry(session, parent.rawValue, name.bytes, strlen(name.bytes))
    }
}
