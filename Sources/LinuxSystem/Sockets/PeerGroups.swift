// SPDX-License-Identifier: Apache-2.0
import Glibc

extension PeerCredentials {
    /// The maximum number of supplementary groups that a process can have (`NGROUPS_MAX`).
    private static let mostGroups = 1 << 16

    /// Returns the supplementary groups that the peer had when it connected (`SO_PEERGROUPS`).
    ///
    /// The first system call has room for `expected` groups. If there are more, a second call follows.
    package static func supplementaryGroups(
        of socket: CInt, expected: Int = 32
    ) throws(Errno) -> [UInt32] {
        var count = expected
        while true {
            var groups = [UInt32](repeating: 0, count: count)
            var size = socklen_t(count * MemoryLayout<UInt32>.stride)
            if getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, &groups, &size) == 0 {
                return Array(groups.prefix(Int(size) / MemoryLayout<UInt32>.stride))
            }
            // With ERANGE the kernel also returns the size that the groups need.
            guard errno == ERANGE, count < Self.mostGroups else { throw .last }
            count = max(Int(size) / MemoryLayout<UInt32>.stride, count * 2, 1)
        }
    }
}
