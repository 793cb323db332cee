// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc
import Synchronization

/// One line of `/proc/self/mountinfo`. The paths are bytes, because they need not be UTF-8.
package struct MountEntry: Hashable, Sendable {
    package var id: Int
    package var parent: Int
    package var device: UInt64
    /// The directory of the file system that appears as the root of the mount.
    package var root: [UInt8]
    package var mountpoint: [UInt8]
    /// The options of this mount alone. Other mounts of the same file system can have other options.
    package var options: [String]
    /// The type of the file system with its subtype, such as `fuse.truce`.
    package var type: String
    package var source: [UInt8]
    /// The options of the file system. All mounts of the file system have them.
    package var fileSystemOptions: [String]

    package var isTruce: Bool { type == "fuse.truce" }

    /// Whether the mount has the option. It has the option `ro` even if only its file system is read-only.
    package func has(_ option: String) -> Bool {
        options.contains(option) || (option == "ro" && fileSystemOptions.contains("ro"))
    }

    /// The user that made this mount, if it is a FUSE mount.
    package var user: UInt32? {
        fileSystemOptions.lazy.filter { $0.hasPrefix("user_id=") }.first
            .flatMap { UInt32($0.dropFirst("user_id=".count)) }
    }
}

/// The mounts in the caller's mount namespace.
package struct MountTable: Sendable {
    /// The mounts in the kernel's order. If two mounts have the same path, the later mount covers the earlier mount.
    package let entries: [MountEntry]

    package init(_ entries: [MountEntry]) { self.entries = entries }

    /// Parses the text of `/proc/self/mountinfo`, and leaves out invalid lines.
    package init(parsing text: [UInt8]) {
        entries = text.split(separator: UInt8(ascii: "\n")).compactMap { MountEntry(parsing: $0) }
    }

    /// Reads the mount table. The text is parsed only if it has changed since the previous call.
    ///
    /// This method runs at each access of a client, but the table rarely changes.
    package static func current() throws(Errno) -> MountTable {
        let text = try readAll("/proc/self/mountinfo")
        let known = last.withLock { $0?.text == text ? $0?.table : nil }
        if let known { return known }
        let table = MountTable(parsing: text)
        last.withLock { $0 = (text, table) }
        return table
    }

    private static let last = Mutex<(text: [UInt8], table: MountTable)?>(nil)

    package func entry(id: Int) -> MountEntry? { entries.last { $0.id == id } }

    /// Returns the mount that `fusermount3` has just made for a user. The command itself does not report the mount's number.
    ///
    /// If `connection` is known, the new mount and its copies are all mounts of that connection. Mount propagation makes the
    /// copies at other places, and the table lists them after the new mount. The result is the top mount at the mountpoint if
    /// it has this connection, and otherwise the first mount with this connection.
    ///
    /// If `connection` is nil, the new mount must have the user and the source, and must be missing in `before`. The result is
    /// the top mount at the mountpoint if it is such a mount, and otherwise the last such mount. Whole entries are compared
    /// with `before`, because the kernel gives the number of an ended mount to a new mount.
    package func newMount(
        at mountpoint: [UInt8], from source: [UInt8], by user: UInt32, connection: UInt32?,
        since before: MountTable
    ) -> MountEntry? {
        let device = connection.map { clinux_device($0 >> 20, $0 & 0xF_FFFF) }
        let known = Set(before.entries)
        let isMade = { (entry: MountEntry) in
            guard entry.isTruce else { return false }
            if let device { return entry.device == device }
            return entry.source == source && entry.user == user && !known.contains(entry)
        }
        if let top = top(at: mountpoint), isMade(top) { return top }
        return device == nil ? entries.last(where: isMade) : entries.first(where: isMade)
    }

    /// Returns the top mount with exactly this path as its mountpoint.
    package func top(at mountpoint: [UInt8]) -> MountEntry? {
        containing(mountpoint).flatMap { $0.mountpoint == mountpoint ? $0 : nil }
    }

    /// Returns the mount that contains an absolute path without `.` and `..`. The method uses only the table, and looks up no
    /// names.
    ///
    /// The method starts at the root's mount and follows the inner mounts along the path. The table also lists mounts that no
    /// path leads to, because a later mount covers the directory that contains them.
    package func containing(_ path: [UInt8]) -> MountEntry? {
        var above = entries.filter { path.isPath(atOrBelow: $0.mountpoint) }
        let ids = Set(above.map(\.id))
        var found = Self.first(of: above.filter { $0.parent == $0.id || !ids.contains($0.parent) })
        // A later mount over `/` covers the caller's root. The caller does not see that mount, so it is left out.
        above.removeAll { $0.mountpoint == [UInt8(ascii: "/")] && $0.id != found?.id }
        while let mount = found {
            above.removeAll { $0.id == mount.id }
            guard let next = Self.first(of: above.filter { $0.parent == mount.id }) else { return mount }
            found = next
        }
        return nil
    }

    /// Returns the mount with the shortest mountpoint. If several mounts have that mountpoint, returns the last of them.
    private static func first(of mounts: [MountEntry]) -> MountEntry? {
        mounts.reversed().min { $0.mountpoint.count < $1.mountpoint.count }
    }
}

extension MountEntry {
    /// Parses a line such as `36 35 98:0 /root /point rw,noatime master:1 shared:2 - ext4 /dev/sda rw,errors=continue`.
    init?(parsing line: ArraySlice<UInt8>) {
        let fields = line.split(separator: UInt8(ascii: " "))
        // The lone dash follows a varying number of optional fields.
        guard let dash = fields.dropFirst(6).firstIndex(where: { $0.elementsEqual("-".utf8) }),
            fields.count > dash + 3,
            let id = Int(fields[0].text), let parent = Int(fields[1].text),
            let device = Self.device(fields[2].text)
        else { return nil }
        self.init(
            id: id, parent: parent, device: device, root: fields[3].unescapingOctal(),
            mountpoint: fields[4].unescapingOctal(), options: fields[5].words,
            type: String(decoding: fields[dash + 1].unescapingOctal(), as: UTF8.self),
            source: fields[dash + 2].unescapingOctal(), fileSystemOptions: fields[dash + 3].words)
    }

    private static func device(_ text: String) -> UInt64? {
        let numbers = text.split(separator: ":").compactMap { UInt32($0) }
        guard numbers.count == 2 else { return nil }
        return clinux_device(numbers[0], numbers[1])
    }
}

extension ArraySlice<UInt8> {
    fileprivate var text: String { String(decoding: self, as: UTF8.self) }

    /// The options in a comma-separated list of ASCII words. A comma inside a value is escaped as `\054`.
    fileprivate var words: [String] {
        split(separator: UInt8(ascii: ",")).map { String(decoding: $0.unescapingOctal(), as: UTF8.self) }
    }

    /// The bytes without escapes. The kernel writes a space, tab, newline or backslash as a backslash and three octal digits
    /// (`my\040folder`).
    func unescapingOctal() -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(count)
        var rest = self
        while let byte = rest.popFirst() {
            let digits = rest.prefix(3)
            guard byte == UInt8(ascii: "\\"), digits.count == 3,
                let value = UInt8(digits.text, radix: 8)
            else {
                bytes.append(byte)
                continue
            }
            bytes.append(value)
            rest = rest.dropFirst(3)
        }
        return bytes
    }
}

extension [UInt8] {
    /// Whether this absolute path is `directory` or is inside it. Only the text of the paths is compared.
    package func isPath(atOrBelow directory: [UInt8]) -> Bool {
        let slash = UInt8(ascii: "/")
        if directory == [slash] { return first == slash }
        return starts(with: directory) && (count == directory.count || self[directory.count] == slash)
    }

    /// Calls `body` with the bytes as a C string.
    package func withPath<R: ~Copyable, E: Error>(_ body: (UnsafePointer<CChar>) throws(E) -> R) throws(E)
        -> R
    {
        let terminated = map { CChar(bitPattern: $0) } + [0]
        return try body(terminated)
    }
}

/// Reads a whole file of unknown size, such as a file in `/proc`.
package func readAll(_ path: String) throws(Errno) -> [UInt8] {
    let file = OwnedDescriptor(
        adopting: try retryingOnInterrupt { open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY) })
    return try file.readToEnd()
}

extension OwnedDescriptor {
    /// Reads until the file ends, `limit` bytes are read, or no data has come for `milliseconds`.
    package borrowing func readToEnd(
        limit: Int = .max, within milliseconds: CInt? = nil
    ) throws(Errno) -> [UInt8] {
        var (bytes, chunk) = ([UInt8](), [UInt8](repeating: 0, count: 64 << 10))
        let descriptor = rawValue
        while bytes.count < limit {
            if let milliseconds {
                var event = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
                guard poll(&event, 1, milliseconds) == 1 else { break }
            }
            let count = try retryingOnInterrupt { Glibc.read(descriptor, &chunk, chunk.count) }
            if count == 0 { break }
            bytes += chunk[..<count]
        }
        return bytes
    }
}
