// SPDX-License-Identifier: Apache-2.0
import Glibc

/// Who keeps a file system alive that is mounted here no more: other mount namespaces, and directories people are in.
///
/// Sends no request to the file system, whose daemon may be the one that asks.
package struct MountHolders: Sendable {
    package struct Holder: Sendable {
        package var pid: Int32
        package var program: [UInt8]
    }

    package let inside: ProcessHolders
    /// One for each mount namespace other than the caller's in which it is mounted.
    package private(set) var namespaces: [Holder] = []

    package init(of device: UInt64) throws(Errno) {
        inside = try ProcessHolders(device)
        var known: Set<[UInt8]> = []
        if let own = readLink("/proc/self/ns/mnt") { known.insert(own) }
        for pid in try ProcessScan.processes() {
            let seen = ProcessInspection.livingThread(of: pid)
            guard let namespace = readLink("/proc/\(seen)/ns/mnt"), known.insert(namespace).inserted,
                let text = ProcessScan.contents(of: "/proc/\(seen)/mountinfo"),
                MountTable(parsing: text).entries.contains(where: { $0.device == device })
            else { continue }
            namespaces.append(Holder(pid: pid, program: ProcessScan.program(of: pid)))
        }
    }

    /// Processes that have their working or root directory there, or anything open, if only by `O_PATH`.
    package struct ProcessHolders: Sendable {
        package private(set) var holders: [Holder] = []
        /// How many processes may not be looked at, because they are somebody else's.
        package private(set) var hidden = 0

        package init(_ device: UInt64) throws(Errno) {
            for pid in try ProcessScan.processes() {
                let seen = ProcessInspection.livingThread(of: pid)
                guard let open = opened(by: seen) else { continue }
                let links = ["cwd", "root"] + open.map { "fd/" + String(decoding: $0, as: UTF8.self) }
                guard links.contains(where: { ProcessScan.cachedDevice("/proc/\(seen)/\($0)") == device })
                else { continue }
                holders.append(Holder(pid: pid, program: ProcessScan.program(of: pid)))
            }
        }

        private mutating func opened(by thread: Int32) -> [[UInt8]]? {
            do throws(Errno) {
                return try ProcessScan.names(in: "/proc/\(thread)/fd")
            } catch {
                // Anything else means that the process is gone.
                if error == .noAccess || error == .notPermitted { hidden += 1 }
                return nil
            }
        }
    }
}

/// Tells when what is mounted changes, in the mount namespace of who made it.
package struct MountTableMonitor: ~Copyable, Sendable {
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

    /// Whether something was, which is told once.
    package var hasChanged: Bool {
        var event = pollfd(fd: table.rawValue, events: Int16(POLLPRI), revents: 0)
        return poll(&event, 1, 0) > 0
    }
}
