// SPDX-License-Identifier: Apache-2.0
import Glibc

extension PeerCredentials {
    /// More than the kernel lets a process have (`NGROUPS_MAX`).
    private static let mostGroups = 1 << 16

    /// `SO_PEERGROUPS`: the other end's supplementary groups when it connected.
    ///
    /// The first call has room for the `expected` number of them.
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
            // With ERANGE the kernel says how much room the groups need.
            guard errno == ERANGE, count < Self.mostGroups else { throw .last }
            count = max(Int(size) / MemoryLayout<UInt32>.stride, count * 2, 1)
        }
    }
}
