// SPDX-License-Identifier: Apache-2.0
import Glibc

/// What leads to the directory below a mount in place, and not through the mount.
///
/// Only what the caller may see. Sends no request to the mount: links in `/proc` are opened with `O_PATH` only.
package struct WaysAround: Sendable {
    /// What a process had before the mount, or was given by one that had.
    package struct Opened: Sendable {
        package var pid: Int32
        package var program: [UInt8]
        package var user: UInt32?
        package var use: BusyProcess.Use
        package var path: [UInt8]
        package var mayWrite: Bool
    }

    /// Another mount of the same directory, or of part of it.
    package struct Way: Sendable {
        package var path: [UInt8]
        /// Somebody in whose mount namespace it is; nil in the caller's own.
        package var pid: Int32?
        package var program: [UInt8] = []
    }

    package private(set) var opened: [Opened] = []
    package private(set) var ways: [Way] = []
    /// How many processes may not be looked at.
    package private(set) var hidden = 0
    private let below: Below

    /// `served` are processes that may have the directory open: the daemon.
    package init(_ mount: MountEntry, in table: MountTable, servedBy served: Set<Int32>) throws(Errno) {
        guard let below = Below(mount, in: table) else { throw .noEntry }
        self.below = below
        ways = below.ways(in: table).map { Way(path: $0) }
        var tables: [[UInt8]: MountTable] = [:]
        if let own = readLink("/proc/self/ns/mnt") { tables[own] = table }
        for pid in try ProcessScan.processes() where pid != getpid() && !served.contains(pid) {
            guard let namespace = readLink("/proc/\(pid)/ns/mnt") else {
                // Of what has ended and was not waited for, not even root may know.
                if geteuid() != 0, Errno.last == .noAccess || Errno.last == .notPermitted { hidden += 1 }
                continue
            }
            if let known = tables[namespace] {
                look(at: pid, known)
            } else if let text = ProcessScan.contents(of: "/proc/\(pid)/mountinfo") {
                let other = MountTable(parsing: text)
                tables[namespace] = other
                ways += below.ways(in: other).map {
                    Way(path: $0, pid: pid, program: ProcessScan.program(of: pid))
                }
                look(at: pid, other)
            }
        }
    }

    private mutating func look(at pid: Int32, _ table: MountTable) {
        let names: [[UInt8]]
        do throws(Errno) { names = try ProcessScan.names(in: "/proc/\(pid)/fd") } catch { return }
        for (link, use) in [("cwd", BusyProcess.Use.workingDirectory), ("root", .root)] {
            let place = "/proc/\(pid)/\(link)"
            guard let path = readLink(place), let mount = ProcessScan.mountID(ofLink: place),
                below.holds(path, on: mount, in: table)
            else { continue }
            note(pid, use, path, mayWrite: false)
        }
        for name in names {
            let number = String(decoding: name, as: UTF8.self)
            let fields = ProcessScan.fields(of: "/proc/\(pid)/fdinfo/\(number)")
            guard let mount = fields["mnt_id:"].flatMap({ Int($0) }),
                let path = readLink("/proc/\(pid)/fd/\(number)"), below.holds(path, on: mount, in: table)
            else { continue }
            let flags = fields["flags:"].flatMap { Int32($0, radix: 8) } ?? 0
            note(pid, .open, path, mayWrite: flags & O_ACCMODE != O_RDONLY)
        }
    }

    private mutating func note(_ pid: Int32, _ use: BusyProcess.Use, _ path: [UInt8], mayWrite: Bool) {
        opened.append(
            Opened(
                pid: pid, program: ProcessScan.program(of: pid), user: Self.user(of: pid), use: use,
                path: path,
                mayWrite: mayWrite))
    }

    private static func user(of pid: Int32) -> UInt32? {
        var status = stat()
        return stat("/proc/\(pid)", &status) == 0 ? status.st_uid : nil
    }
}

/// The directory below a mount, as a part of its file system.
private struct Below: Sendable {
    private let device: UInt64
    private let path: [UInt8]

    /// Nil if the mount it lies in cannot be seen.
    init?(_ mount: MountEntry, in table: MountTable) {
        guard let parent = table.entry(id: mount.parent), let path = parent.part(at: mount.mountpoint) else {
            return nil
        }
        (device, self.path) = (parent.device, path)
    }

    /// Where else it is seen, or something in it.
    func ways(in table: MountTable) -> [[UInt8]] {
        table.entries.filter { $0.device == device }.compactMap { entry in
            guard let place = entry.root.isPath(atOrBelow: path) ? entry.mountpoint : entry.place(of: path),
                // What is covered by another mount is not seen.
                table.containing(place) == entry
            else { return nil }
            return place
        }
    }

    /// Whether something that was reached by a mount is in it.
    func holds(_ path: [UInt8], on mount: Int, in table: MountTable) -> Bool {
        guard let entry = table.entry(id: mount), entry.device == device, let part = entry.part(at: path)
        else {
            return false
        }
        return part.isPath(atOrBelow: self.path)
    }
}

extension MountEntry {
    /// Which part of the file system is at a path.
    fileprivate func part(at path: [UInt8]) -> [UInt8]? { path.replacing(mountpoint, by: root) }
    /// Where a part of the file system is.
    fileprivate func place(of part: [UInt8]) -> [UInt8]? { part.replacing(root, by: mountpoint) }
}

extension [UInt8] {
    /// Of an absolute path, the beginning; nil if it has another one.
    fileprivate func replacing(_ beginning: [UInt8], by other: [UInt8]) -> [UInt8]? {
        guard isPath(atOrBelow: beginning) else { return nil }
        let rest = dropFirst(beginning.count).drop { $0 == UInt8(ascii: "/") }
        let start = other == [UInt8(ascii: "/")] ? [] : other
        if rest.isEmpty { return other }
        return start + [UInt8(ascii: "/")] + rest
    }
}
