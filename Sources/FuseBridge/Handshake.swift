// SPDX-License-Identifier: Apache-2.0
import CFuse
import Glibc
import Synchronization

/// Features on which the daemon and the kernel agree when the connection opens. Each feature has the bit number of the kernel.
///
/// The lower 32 bits are sent in the field `flags`, and the upper 32 bits in the field `flags2`.
package struct ConnectionFeatures: OptionSet, Sendable {
    package let rawValue: UInt64
    package init(rawValue: UInt64) { self.rawValue = rawValue }

    /// The kernel may look up `.` in a directory with an inode that it has forgotten, and `..` in a directory with an unknown
    /// parent.
    package static let recalling = Self(rawValue: 1 << 4)
    /// The kernel sends the mode of a new file without applying the umask. This is necessary for default ACLs.
    package static let unmaskedModes = Self(rawValue: 1 << 6)
    /// The kernel may send several look-ups and listings of one directory at the same time.
    ///
    /// libfuse 3.14 sets this bit in `want`, but does not send the bit to the kernel.
    package static let parallelDirectoryOperations = Self(rawValue: 1 << 18)
    package static let posixACL = Self(rawValue: 1 << 20)
    /// The kernel need not send a GETXATTR before each write. With this feature, a write under passthrough does not clear
    /// set-user-ID.
    package static let privilegeClearing = Self(rawValue: 1 << 28)
    static let extendedFlags = Self(rawValue: 1 << 30)
    /// The kernel reads and writes a backing file itself, without the daemon.
    package static let passthrough = Self(rawValue: 1 << 37)
    /// The kernel can send unanswered requests a second time, to a daemon that takes over the connection.
    package static let resending = Self(rawValue: 1 << 39)
}

/// Agrees with the kernel on the features of the connection.
///
/// From version 3.17 on, libfuse requests the features that the daemon wants. Older versions cannot request all of them, so
/// this class changes their reply to INIT. It changes the reply in the functions by which the session reads and writes. For
/// every other message, this costs one comparison.
final class Handshake: Sendable {
    private let wanted: ConnectionFeatures
    private let offered = Atomic<UInt64>(0)
    private let agreedBits = Atomic<UInt64>(0)
    /// The features that both the daemon and the kernel want; empty until INIT is answered.
    var agreed: ConnectionFeatures { ConnectionFeatures(rawValue: agreedBits.load(ordering: .relaxed)) }
    /// The request number of an INIT that was read and is not answered yet. It is 0 if there is no such INIT, because no
    /// request has the number 0.
    private let unanswered = Atomic<UInt64>(0)

    init(wanting features: ConnectionFeatures) { self.wanted = features }

    /// Called while libfuse makes its reply to INIT.
    func agree(with connection: UnsafeMutablePointer<fuse_conn_info>) {
        let agreed = cfuse_agree(connection, wanted.rawValue)
        agreedBits.store(agreed, ordering: .relaxed)
    }

    private static let initOpcode: UInt32 = 26

    func observe(request: UnsafeRawBufferPointer) {
        let header = request.load(as: cfuse_in_header.self)
        let headerSize = MemoryLayout<cfuse_in_header>.size
        guard header.opcode == Self.initOpcode,
            request.count >= headerSize + MemoryLayout<cfuse_init_in>.size
        else { return }
        let message = request.load(fromByteOffset: headerSize, as: cfuse_init_in.self)
        offered.store(UInt64(message.flags2) << 32 | UInt64(message.flags), ordering: .relaxed)
        unanswered.store(header.unique, ordering: .releasing)
    }

    func amend(reply: UnsafeMutableBufferPointer<iovec>) {
        let request = unanswered.load(ordering: .acquiring)
        guard request != 0, reply.count >= 2, let header = reply[0].iov_base, let body = reply[1].iov_base,
            header.load(as: cfuse_out_header.self).unique == request,
            reply[1].iov_len == MemoryLayout<cfuse_init_out>.size
        else { return }
        unanswered.store(0, ordering: .relaxed)
        amend(&body.assumingMemoryBound(to: cfuse_init_out.self).pointee)
    }

    private func amend(_ reply: inout cfuse_init_out) {
        let agreed = wanted.intersection(ConnectionFeatures(rawValue: offered.load(ordering: .relaxed)))
        agreedBits.store(agreed.rawValue, ordering: .relaxed)
        let bits = agreed.union(.extendedFlags).rawValue
        reply.flags |= UInt32(truncatingIfNeeded: bits)
        reply.flags2 |= UInt32(truncatingIfNeeded: bits >> 32)
        // The value 1 tells the kernel two facts: the backing file is on a plain file system, and another file system may be
        // stacked on the mount.
        if agreed.contains(.passthrough) { reply.max_stack_depth = 1 }
    }
}

/// Returns the functions by which the session reads and writes. With an older libfuse, these functions change the reply to
/// INIT.
///
/// libfuse does not use splice(2), because the two functions for splicing are missing.
func makeTransport() -> fuse_custom_io {
    var transport = fuse_custom_io()
    transport.read = { descriptor, buffer, capacity, root in
        let count = read(descriptor, buffer, capacity)
        guard count >= MemoryLayout<cfuse_in_header>.size, let root else { return count }
        withFuseSessionContext(root) {
            $0.handshake.observe(request: UnsafeRawBufferPointer(start: buffer, count: count))
        }
        return count
    }
    transport.writev = { descriptor, vectors, count, root in
        if let root {
            withFuseSessionContext(root) {
                $0.handshake.amend(reply: UnsafeMutableBufferPointer(start: vectors, count: Int(count)))
            }
        }
        return writev(descriptor, vectors, count)
    }
    return transport
}
