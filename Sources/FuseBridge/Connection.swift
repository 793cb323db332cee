// SPDX-License-Identifier: Apache-2.0
import CFuse
import Glibc
package import LinuxSystem

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

    init(of session: OpaquePointer) throws(Errno) {
        self.session = session
        self.device = try .duplicating(fuse_session_fd(session))
    }

    // _IOW(229, 1, struct fuse_backing_map) and _IOW(229, 2, uint32_t): macros do not reach Swift.
    private static let backingOpen: UInt = 0x4010_E501
    private static let backingClose: UInt = 0x4004_E502

    /// Registers the file behind `descriptor`, for which `O_PATH` is enough.
    package func openBacking(_ descriptor: borrowing OwnedDescriptor) throws(Errno) -> BackingID {
        var map = cfuse_backing_map(fd: descriptor.rawValue, flags: 0, padding: 0)
        let result = ioctl(device.rawValue, Self.backingOpen, &map)
        guard result > 0 else { throw .last }
        return BackingID(rawValue: result)
    }

    package func closeBacking(_ backing: BackingID) {
        var rawValue = backing.rawValue
        _ = ioctl(device.rawValue, Self.backingClose, &rawValue)
    }

    /// Makes the kernel ask for the attributes of an inode again.
    ///
    /// Takes no inode lock, so it may be called while a request holds the directory's.
    package func invalidateAttributes(of node: NodeID) {
        _ = fuse_lowlevel_notify_inval_inode(session, node.rawValue, -1, 0)
    }
}
