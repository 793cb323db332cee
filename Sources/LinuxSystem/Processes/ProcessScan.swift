// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// A process that uses a mount, and the file or directory of the mount that the process uses.
package struct BusyProcess: Hashable, Sendable {
    package enum Use: String, Hashable, Sendable {
        case workingDirectory = "working directory"
        case root = "root directory"
        case open = "open"
        case mapped = "mapped"
    }

    package var pid: Int32
    package var program: [UInt8]
    package var use: Use
    package var path: [UInt8]
}

/// Finds the processes that use a mount.
///
/// The scan sends no request to the mount, so it works even if the mount hangs or is dead. It opens links in `/proc` with
/// `O_PATH` only, for which the kernel asks no file system.
package struct ProcessScan: Sendable {
    package private(set) var busy: [BusyProcess] = []
    /// The number of processes of other users that the caller may not inspect.
    package private(set) var hidden = 0
    private let mount: MountEntry

    package init(usersOf mount: MountEntry) throws(Errno) {
        self.mount = mount
        for pid in try Self.processes() { scan(pid) }
    }

    /// Returns the numbers of all processes that `/proc` shows to the caller.
    static func processes() throws(Errno) -> [Int32] { try numbers(in: "/proc") }

    static func numbers(in path: String) throws(Errno) -> [Int32] {
        try names(in: path).compactMap { Int32(String(decoding: $0, as: UTF8.self)) }
    }

    private mutating func scan(_ pid: Int32) {
        let seen = ProcessInspection.livingThread(of: pid)
        guard let open = names("/proc/\(seen)/fd") else { return }
        for (link, use) in [("cwd", BusyProcess.Use.workingDirectory), ("root", .root)] {
            let path = "/proc/\(seen)/\(link)"
            if Self.mountID(ofLink: path) == mount.id { note(pid, use, Self.target(of: path)) }
        }
        for name in open {
            let number = String(decoding: name, as: UTF8.self)
            // The device is compared before the status is read. To get the status of a socket, for example, can block until the
            // process that serves the socket answers.
            guard Self.cachedDevice("/proc/\(seen)/fd/\(number)") == mount.device,
                Self.mountID(in: "/proc/\(seen)/fdinfo/\(number)") == mount.id
            else { continue }
            note(pid, .open, Self.target(of: "/proc/\(seen)/fd/\(number)"))
        }
        for path in mappedFiles(of: seen) { note(pid, .mapped, path) }
    }

    private mutating func note(_ pid: Int32, _ use: BusyProcess.Use, _ path: [UInt8]) {
        busy.append(BusyProcess(pid: pid, program: Self.program(of: pid), use: use, path: path))
    }

    /// Returns the names in a directory of another process in `/proc`. If the caller may not read the directory, returns nil
    /// and counts the process as hidden.
    private mutating func names(_ path: String) -> [[UInt8]]? {
        do throws(Errno) {
            return try Self.names(in: path)
        } catch {
            // After any other error the process has ended, so it does not use the mount.
            if error == .noAccess || error == .notPermitted { hidden += 1 }
            return nil
        }
    }

    static func names(in path: String) throws(Errno) -> [[UInt8]] {
        let flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC
        let directory = OwnedDescriptor(adopting: try retryingOnInterrupt { open(path, flags) })
        var stream = try DirectoryStream(reading: directory)
        var names: [[UInt8]] = []
        try stream.forEach(from: 0) { name, _, _, _ in
            if name.isSelfOrParent { return true }
            let bytes = UnsafeBufferPointer(start: name.bytes, count: strlen(name.bytes))
            names.append(bytes.map { UInt8(bitPattern: $0) })
            return true
        }
        return names
    }

    private func mappedFiles(of thread: Int32) -> Set<[UInt8]> {
        Set(Self.mappings(of: thread).filter { $0.device == mount.device }.map(\.path))
    }

    /// A file that a process has mapped. The process can have closed the descriptor of the file since then.
    struct Mapping: Hashable {
        /// The range of addresses, written as in the names of `/proc/PID/map_files`.
        let range: String
        let isWritable: Bool
        let isShared: Bool
        let device: UInt64
        let path: [UInt8]

        /// Parses a line such as `7f1c-7f1d rw-s 00000000 08:01 1234    /a file`; the device `08:01` is hexadecimal.
        init?(parsing line: ArraySlice<UInt8>) {
            let fields = line.split(separator: UInt8(ascii: " "), maxSplits: 5)
            guard fields.count == 6, let device = ProcessScan.device(fields[3]) else { return nil }
            let ends = String(decoding: fields[0], as: UTF8.self).split(separator: "-")
                .compactMap { UInt64($0, radix: 16) }
            guard ends.count == 2 else { return nil }
            range = ends.map { String($0, radix: 16) }.joined(separator: "-")
            isWritable = fields[1].contains(UInt8(ascii: "w"))
            isShared = fields[1].contains(UInt8(ascii: "s"))
            self.device = device
            path = Array(fields[5].drop { $0 == UInt8(ascii: " ") })
        }
    }

    /// Returns the mappings of a thread's process. Returns none if the thread has ended or the caller may not inspect the
    /// process.
    static func mappings(of thread: Int32) -> [Mapping] {
        guard let maps = contents(of: "/proc/\(thread)/maps") else { return [] }
        return maps.split(separator: UInt8(ascii: "\n")).compactMap { Mapping(parsing: $0) }
    }

    fileprivate static func device(_ field: ArraySlice<UInt8>) -> UInt64? {
        let numbers = String(decoding: field, as: UTF8.self).split(separator: ":")
            .compactMap { UInt32($0, radix: 16) }
        return numbers.count == 2 ? clinux_device(numbers[0], numbers[1]) : nil
    }

    /// Returns the device of the file system to which a link in `/proc` leads. That file system gets no request.
    package static func cachedDevice(_ link: String) -> UInt64? {
        var device: UInt64 = 0
        return clinux_device_at_hand(link, &device) == 0 ? device : nil
    }

    static func mountID(ofLink path: String) -> Int? {
        let descriptor = open(path, CLINUX_O_PATH | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        return OwnedDescriptor(adopting: descriptor).mountID
    }

    fileprivate static func mountID(in fdinfo: String) -> Int? {
        fields(of: fdinfo)["mnt_id:"].flatMap { Int($0) }
    }

    /// Returns the fields of a descriptor in `/proc`, such as `mnt_id:` and `flags:`. Returns none if the descriptor is closed.
    static func fields(of fdinfo: String) -> [String: String] {
        guard let text = contents(of: fdinfo) else { return [:] }
        var fields: [String: String] = [:]
        for line in String(decoding: text, as: UTF8.self).split(separator: "\n") {
            let words = line.split { $0 == "\t" || $0 == " " }
            if words.count == 2 { fields[String(words[0])] = String(words[1]) }
        }
        return fields
    }

    /// Returns the name that the kernel has for the program of a process; `(gone)` if the process has ended.
    package static func program(of pid: Int32) -> [UInt8] {
        guard var name = contents(of: "/proc/\(pid)/comm") else { return Array("(gone)".utf8) }
        if name.last == UInt8(ascii: "\n") { name.removeLast() }
        return name
    }

    /// Reads a file of `/proc`; returns nil if the process has ended or the caller may not inspect it.
    static func contents(of path: String) -> [UInt8]? {
        do throws(Errno) { return try readAll(path) } catch { return nil }
    }

    private static func target(of link: String) -> [UInt8] { readLink(link) ?? [] }
}

/// `readlink(2)`: returns the target of a symbolic link; nil if the path is no symbolic link.
package func readLink(_ path: String) -> [UInt8]? {
    var target = [UInt8](repeating: 0, count: Int(PATH_MAX))
    let count = target.withUnsafeMutableBytes { buffer in
        readlink(path, buffer.bindMemory(to: CChar.self).baseAddress!, buffer.count)
    }
    return count >= 0 ? Array(target[..<count]) : nil
}

extension OwnedDescriptor {
    /// The number of the mount through which the file was opened. It is nil only if `/proc` is missing.
    package var mountID: Int? { ProcessScan.mountID(in: "/proc/self/fdinfo/\(rawValue)") }
}
