// SPDX-License-Identifier: Apache-2.0
import Glibc

/// The bypasses of an in-place mount: accesses to the directory below that do not go through the mount.
///
/// Only bypasses that the caller has the right to see are found. The search sends no request to the mount, because it opens
/// links in `/proc` with `O_PATH` only.
package struct MountBypasses: Sendable {
    /// A bypass by a descriptor, directory or mapping. A process had it before the mount was made, or received it from such a
    /// process.
    package struct EarlierUse: Sendable {
        package var pid: Int32
        package var program: [UInt8]
        package var user: UInt32?
        package var use: BusyProcess.Use
        package var path: [UInt8]
        package var mayWrite: Bool
    }

    /// A bypass by another mount that shows the same directory, or a part of it.
    package struct OtherMount: Sendable {
        package var path: [UInt8]
        /// A process in the mount namespace that contains this mount; nil if that is the caller's own namespace.
        package var pid: Int32?
        package var program: [UInt8] = []
    }

    package private(set) var earlierUses: [EarlierUse] = []
    package private(set) var otherMounts: [OtherMount] = []
    /// The number of processes that the caller may not inspect.
    package private(set) var hidden = 0
    /// Whether `/proc` lists only processes that the caller may inspect: `hidepid` in proc(5).
    package let hasUnlistedProcesses: Bool
    private let below: LowerDirectory
    /// The mounts of all namespaces, by their numbers. No two mounts have the same number, even in different namespaces.
    private var mounts: [Int: MountEntry] = [:]

    /// Finds the bypasses of a mount. `served` are the processes of the daemon, which are left out because they must use the
    /// directory below.
    package init(_ mount: MountEntry, in table: MountTable, servedBy served: Set<Int32>) throws(Errno) {
        guard let below = LowerDirectory(mount, in: table) else { throw .noEntry }
        self.below = below
        hasUnlistedProcesses =
            geteuid() != 0 && table.top(at: Array("/proc".utf8))?.listsOwnProcessesOnly ?? false
        otherMounts = below.otherMounts(in: table).map { OtherMount(path: $0) }
        note(table)
        // The mounts of all namespaces are read before the descriptors. A process can use files of another namespace, which it
        // has left or from which it received a descriptor.
        let processes = try ProcessScan.processes().filter { $0 != getpid() && !served.contains($0) }
        for pid in scanNamespaces(of: processes) { scan(at: pid) }
    }

    private mutating func note(_ table: MountTable) {
        for entry in table.entries { mounts[entry.id] = entry }
    }

    /// Reads the mounts of each process's namespace, and returns the processes that the caller may inspect.
    private mutating func scanNamespaces(of processes: [Int32]) -> [Int32] {
        var known: Set<[UInt8]> = []
        if let namespace = readLink("/proc/self/ns/mnt") { known.insert(namespace) }
        return processes.filter { pid in
            let seen = ProcessInspection.livingThread(of: pid)
            guard let namespace = readLink("/proc/\(seen)/ns/mnt") else {
                // The namespace of a zombie cannot be read, not even by root. A zombie is not counted as hidden.
                if geteuid() != 0, Errno.last == .noAccess || Errno.last == .notPermitted { hidden += 1 }
                return false
            }
            guard !known.contains(namespace) else { return true }
            guard let text = ProcessScan.contents(of: "/proc/\(seen)/mountinfo") else { return false }
            known.insert(namespace)
            let table = MountTable(parsing: text)
            note(table)
            otherMounts += below.otherMounts(in: table).map {
                OtherMount(path: $0, pid: pid, program: ProcessScan.program(of: pid))
            }
            return true
        }
    }

    private mutating func scan(at pid: Int32) {
        let seen = ProcessInspection.livingThread(of: pid)
        let names: [[UInt8]]
        do throws(Errno) { names = try ProcessScan.names(in: "/proc/\(seen)/fd") } catch { return }
        for (link, use) in [("cwd", BusyProcess.Use.workingDirectory), ("root", .root)] {
            let place = "/proc/\(seen)/\(link)"
            guard let path = readLink(place), let mount = ProcessScan.mountID(ofLink: place),
                below.holds(path, on: mounts[mount])
            else { continue }
            note(pid, use, path, mayWrite: false)
        }
        var written: [[UInt8]: Bool] = [:]
        for name in names {
            let number = String(decoding: name, as: UTF8.self)
            // Sockets and other descriptors that are no files are left out. To get their status can block until the process
            // that serves them answers.
            guard let path = readLink("/proc/\(seen)/fd/\(number)"), path.first == UInt8(ascii: "/") else {
                continue
            }
            let fields = ProcessScan.fields(of: "/proc/\(seen)/fdinfo/\(number)")
            guard let mount = fields["mnt_id:"].flatMap({ Int($0) }), below.holds(path, on: mounts[mount])
            else { continue }
            let flags = fields["flags:"].flatMap { Int32($0, radix: 8) } ?? 0
            let mayWrite = flags & O_ACCMODE != O_RDONLY
            written[path] = mayWrite || written[path] ?? false
            note(pid, .open, path, mayWrite: mayWrite)
        }
        // A mapping stays after its descriptor is closed. Files that are still open were added by the loop above.
        for (path, mayWrite) in mapped(by: seen) where mayWrite ? written[path] != true : written[path] == nil
        {
            note(pid, .mapped, path, mayWrite: mayWrite)
        }
    }

    /// Returns the mapped files of the thread's process that are in the directory below, sorted by name. `mayWrite` is whether
    /// the process can change the file through the mapping.
    ///
    /// Writes to a private mapping do not change the file.
    private func mapped(by thread: Int32) -> [(path: [UInt8], mayWrite: Bool)] {
        var files: [[UInt8]: Bool] = [:]
        for mapping in ProcessScan.mappings(of: thread) where mapping.device == below.device {
            guard files[mapping.path] != true else { continue }
            let mayWrite = mapping.isShared && mapping.isWritable
            guard mayWrite || files[mapping.path] == nil else { continue }
            // Only root can find out through which mount a process opened a file that is now mapped.
            let number = ProcessScan.mountID(ofLink: "/proc/\(thread)/map_files/\(mapping.range)")
            let mount =
                if let number { mounts[number] } else { below.likelyMount(of: mapping.path, in: mounts) }
            if below.holds(mapping.path, on: mount) { files[mapping.path] = mayWrite }
        }
        return files.sorted { $0.key.lexicographicallyPrecedes($1.key) }.map { ($0.key, $0.value) }
    }

    private mutating func note(_ pid: Int32, _ use: BusyProcess.Use, _ path: [UInt8], mayWrite: Bool) {
        earlierUses.append(
            EarlierUse(
                pid: pid, program: ProcessScan.program(of: pid), user: Self.user(of: pid), use: use,
                path: path,
                mayWrite: mayWrite))
    }

    private static func user(of pid: Int32) -> UInt32? {
        var status = stat()
        return stat("/proc/\(pid)", &status) == 0 ? status.st_uid : nil
    }
}

/// The directory below a mount: its device, and its path within the file system.
private struct LowerDirectory: Sendable {
    let device: UInt64
    private let path: [UInt8]

    /// Finds the directory below a mount. Returns nil if the caller cannot see the mount that contains that directory.
    init?(_ mount: MountEntry, in table: MountTable) {
        guard let parent = table.entry(id: mount.parent), let path = parent.part(at: mount.mountpoint) else {
            return nil
        }
        (device, self.path) = (parent.device, path)
    }

    /// Returns the other paths at which the directory, or a part of it, is mounted.
    func otherMounts(in table: MountTable) -> [[UInt8]] {
        table.entries.filter { $0.device == device }.compactMap { entry in
            guard let place = entry.root.isPath(atOrBelow: path) ? entry.mountpoint : entry.place(of: path),
                // A path that a later mount covers is left out, because no process can reach the directory by this path.
                table.containing(place) == entry
            else { return nil }
            return place
        }
    }

    /// Returns whether `path` is in the directory, if `path` is reached through `mount`. Returns false if `mount` is nil.
    func holds(_ path: [UInt8], on mount: MountEntry?) -> Bool {
        guard let mount, mount.device == device, let part = mount.part(at: path) else { return false }
        return part.isPath(atOrBelow: self.path)
    }

    /// Returns the mount of this file system with the longest mountpoint that is a beginning of the path. Only the text of the
    /// path is used.
    func likelyMount(of path: [UInt8], in mounts: [Int: MountEntry]) -> MountEntry? {
        mounts.values.filter { $0.device == device && path.isPath(atOrBelow: $0.mountpoint) }
            .max { $0.mountpoint.count < $1.mountpoint.count }
    }
}

extension MountEntry {
    /// Whether this mount of `/proc` hides the processes of other users. The option that exempts the members of a group is
    /// ignored.
    fileprivate var listsOwnProcessesOnly: Bool {
        ["2", "4", "invisible", "ptraceable"].contains { fileSystemOptions.contains("hidepid=\($0)") }
    }

    /// Converts the absolute path of a directory to its path within the mounted file system.
    fileprivate func part(at path: [UInt8]) -> [UInt8]? { path.replacing(mountpoint, by: root) }
    /// Converts a path within the file system to the absolute path that it has in this mount.
    fileprivate func place(of part: [UInt8]) -> [UInt8]? { part.replacing(root, by: mountpoint) }
}

extension [UInt8] {
    /// Replaces the beginning of an absolute path by `other`; returns nil if the path does not begin with `beginning`.
    fileprivate func replacing(_ beginning: [UInt8], by other: [UInt8]) -> [UInt8]? {
        guard isPath(atOrBelow: beginning) else { return nil }
        let rest = dropFirst(beginning.count).drop { $0 == UInt8(ascii: "/") }
        let start = other == [UInt8(ascii: "/")] ? [] : other
        if rest.isEmpty { return other }
        return start + [UInt8(ascii: "/")] + rest
    }
}
