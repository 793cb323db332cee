// SPDX-License-Identifier: Apache-2.0
import Glibc

/// The holders of a file system that is not mounted here any more: other mount namespaces, and processes that use files or
/// directories of the file system.
///
/// The search sends no request to the file system, because the caller can be the daemon of that file system.
package struct MountHolders: Sendable {
    package struct Holder: Sendable {
        package var pid: Int32
        package var program: [UInt8]
    }

    package let inside: ProcessHolders
    /// The mount namespaces, except the caller's, in which the file system is still mounted. Each is represented by a process
    /// in it.
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

    /// The processes with a working directory, a root directory or an open file in the file system. Files that are open with
    /// `O_PATH` count as well.
    package struct ProcessHolders: Sendable {
        package private(set) var holders: [Holder] = []
        /// The number of processes of other users that the caller may not inspect.
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
                // After any other error the process has ended, so it holds nothing.
                if error == .noAccess || error == .notPermitted { hidden += 1 }
                return nil
            }
        }
    }
}

/// Reports changes of the mount table, in the mount namespace of the process that created this value.
package struct MountTableMonitor: ~Copyable, Sendable {
    private let table: OwnedDescriptor

    package init() throws(Errno) {
        table = OwnedDescriptor(
            adopting: try retryingOnInterrupt { open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC) })
    }

    /// Blocks until the mount table has changed since the previous call, or since the creation of this value.
    package borrowing func wait() {
        var event = pollfd(fd: table.rawValue, events: Int16(POLLPRI), revents: 0)
        _ = poll(&event, 1, -1)
    }

    /// Whether the mount table has changed since the previous call, or since the creation of this value.
    package var hasChanged: Bool {
        var event = pollfd(fd: table.rawValue, events: Int16(POLLPRI), revents: 0)
        return poll(&event, 1, 0) > 0
    }
}
