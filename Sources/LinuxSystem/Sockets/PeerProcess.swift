// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// A moment of the clock by which the kernel says when a process began.
package struct BootTicks: Hashable, Comparable, Sendable {
    /// Clock ticks since boot, as in `/proc/PID/stat`.
    package let ticks: UInt64

    package init(ticks: UInt64) { self.ticks = ticks }

    package static var now: BootTicks {
        var boot = timespec()
        clock_gettime(CLOCK_BOOTTIME, &boot)
        let perSecond = UInt64(max(sysconf(CInt(_SC_CLK_TCK)), 1))
        let part = UInt64(boot.tv_nsec) / (1_000_000_000 / perSecond)
        return BootTicks(ticks: UInt64(boot.tv_sec) * perSecond + part)
    }

    package static func < (one: Self, other: Self) -> Bool { one.ticks < other.ticks }
}

extension OtherProcess {
    /// The process that made the connection at the other end of a socket, to be watched or asked whether it
    /// lives; `ESRCH` if it is gone.
    ///
    /// `connected` tells it from a younger process of the same number, on kernels that cannot.
    package static func watch(
        peerOf socket: CInt, connected: BootTicks
    ) throws(Errno) -> OwnedDescriptor {
        let descriptor = clinux_peer_pidfd(socket)
        if descriptor >= 0 { return OwnedDescriptor(adopting: descriptor) }
        guard Errno.last != Errno.noProcess else { throw .last }
        return try watch(try PeerCredentials(of: socket).pid, startedBefore: connected)
    }

    /// Before Linux 6.5, and once the process is gone.
    package static func watch(
        _ number: Int32, startedBefore moment: BootTicks
    ) throws(Errno) -> OwnedDescriptor {
        let process = try watch(number)
        // Looked at after it was opened: if this is the process, the descriptor is its.
        guard let status = ProcessInspection.status(ofProcess: number),
            BootTicks(ticks: status.started) <= moment
        else { throw .noProcess }
        return process
    }
}
