// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// A moment in clock ticks since boot, the clock by which the kernel records the start times of processes.
package struct BootTicks: Hashable, Comparable, Sendable {
    /// The number of clock ticks since boot, as in `/proc/PID/stat`.
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
    /// Opens the process at the other end of a socket, so that the caller can watch it. Throws `ESRCH` if the process has
    /// ended.
    ///
    /// A kernel without `SO_PEERPIDFD` returns only the number of the process. In this case the process must have started
    /// before `connected`. A process that started later is not the peer, even if it has the same number.
    package static func watch(
        peerOf socket: CInt, connected: BootTicks
    ) throws(Errno) -> OwnedDescriptor {
        let descriptor = clinux_peer_pidfd(socket)
        if descriptor >= 0 { return OwnedDescriptor(adopting: descriptor) }
        guard Errno.last != Errno.noProcess else { throw .last }
        return try watch(try PeerCredentials(of: socket).pid, startedBefore: connected)
    }

    /// Opens a process that started before a moment. Callers need this before Linux 6.5, and if the peer of a socket has ended.
    package static func watch(
        _ number: Int32, startedBefore moment: BootTicks
    ) throws(Errno) -> OwnedDescriptor {
        let process = try watch(number)
        // The start time is read after the process was opened. If the start time is early enough, the opened process is the
        // wanted process.
        guard let status = ProcessInspection.status(ofProcess: number),
            BootTicks(ticks: status.started) <= moment
        else { throw .noProcess }
        return process
    }
}
