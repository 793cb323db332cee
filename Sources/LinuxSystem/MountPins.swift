// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// Who keeps a file system alive that is mounted here no more: other mount namespaces, and directories people are in.
///
/// Sends no request to the file system, whose daemon may be the one that asks.
package struct MountPins: Sendable {
    package struct Holder: Sendable {
        package var pid: Int32
        package var program: [UInt8]
    }

    /// Processes that have their working or root directory there; who is somebody else's cannot be seen by a user.
    package private(set) var inside: [Holder] = []
    /// One for each mount namespace other than the caller's in which it is mounted.
    package private(set) var namespaces: [Holder] = []

    package init(of device: UInt64) throws(Errno) {
        var known: Set<[UInt8]> = []
        if let own = readLink("/proc/self/ns/mnt") { known.insert(own) }
        for pid in try ProcessScan.processes() {
            if ["cwd", "root"].contains(where: { Self.device(of: "/proc/\(pid)/\($0)") == device }) {
                inside.append(Holder(pid: pid, program: ProcessScan.program(of: pid)))
            }
            guard let namespace = readLink("/proc/\(pid)/ns/mnt"), known.insert(namespace).inserted,
                let text = ProcessScan.contents(of: "/proc/\(pid)/mountinfo"),
                MountTable(parsing: text).entries.contains(where: { $0.device == device })
            else { continue }
            namespaces.append(Holder(pid: pid, program: ProcessScan.program(of: pid)))
        }
    }

    /// From the kernel's memory.
    private static func device(of link: String) -> UInt64? {
        var device: UInt64 = 0
        return clinux_device_at_hand(link, &device) == 0 ? device : nil
    }
}

/// Tells when what is mounted changes, in the mount namespace of who made it.
package struct MountTableWatch: ~Copyable, Sendable {
    private let table: OwnedDescriptor

    package init() throws(Errno) {
        table = OwnedDescriptor(
            adopting: try retryingOnInterrupt { open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC) })
    }

    /// Blocks until something was mounted or unmounted since the last call, or since this was made.
    package borrowing func wait() {
        var event = pollfd(fd: table.rawValue, events: Int16(POLLPRI), revents: 0)
        _ = poll(&event, 1, -1)
    }
}
