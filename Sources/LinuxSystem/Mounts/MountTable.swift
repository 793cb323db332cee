// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc
import Synchronization

/// One line of `/proc/self/mountinfo`. Paths are bytes, because that is what paths are.
package struct MountEntry: Hashable, Sendable {
    package var id: Int
    package var parent: Int
    package var device: UInt64
    /// The part of the file system that is mounted.
    package var root: [UInt8]
    package var mountpoint: [UInt8]
    /// The options of this mount.
    package var options: [String]
    /// With its subtype: `fuse.truce`.
    package var type: String
    package var source: [UInt8]
    /// The options of the file system, whatever it is mounted at.
    package var fileSystemOptions: [String]

    package var isTruce: Bool { type == "fuse.truce" }

    /// Whether the mount or the file system carries an option.
    package func has(_ option: String) -> Bool {
        options.contains(option) || (option == "ro" && fileSystemOptions.contains("ro"))
    }

    /// The user a FUSE file system was mounted by.
    package var user: UInt32? {
        fileSystemOptions.lazy.filter { $0.hasPrefix("user_id=") }.first
            .flatMap { UInt32($0.dropFirst("user_id=".count)) }
    }
}

/// What is mounted where, in the caller's mount namespace.
package struct MountTable: Sendable {
    /// In the kernel's order: of two mounts at one place, the later covers the earlier.
    package let entries: [MountEntry]

    package init(_ entries: [MountEntry]) { self.entries = entries }

    /// Parses the text of `/proc/self/mountinfo`; a line that is not one is left out.
    package init(parsing text: [UInt8]) {
        entries = text.split(separator: UInt8(ascii: "\n")).compactMap { MountEntry(parsing: $0) }
    }

    /// Each access of a client asks for it, and it hardly ever changes: the same text is not parsed twice in a row.
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

    /// The mount that `fusermount3` has just made for a user; it does not tell which one that is.
    ///
    /// If the kernel tells the connection's number, all mounts of that connection are this one and its copies: where mounts are passed
    /// on, the kernel copies it to other places, and lists the copies later. So it is the one that is seen at the mountpoint, or the first
    /// one elsewhere.
    ///
    /// Else it is the one that is seen at the mountpoint, or the last one elsewhere, and it was not there before. Entries are compared
    /// whole: the kernel hands numbers of mounts out again at once. Another user may give a mount the same source.
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

    /// The mount one sees at exactly this path.
    package func top(at mountpoint: [UInt8]) -> MountEntry? {
        containing(mountpoint).flatMap { $0.mountpoint == mountpoint ? $0 : nil }
    }

    /// The mount that a clean absolute path leads into, by the table alone: nothing is looked up.
    ///
    /// From mount to mount, each on the one before: what was mounted in a directory is not seen any more when another mount
    /// covers that, though the table has it still.
    package func containing(_ path: [UInt8]) -> MountEntry? {
        var above = entries.filter { path.isPath(atOrBelow: $0.mountpoint) }
        let ids = Set(above.map(\.id))
        var found = Self.first(of: above.filter { $0.parent == $0.id || !ids.contains($0.parent) })
        // What is mounted over the root is not seen by whom has that root, as the caller.
        above.removeAll { $0.mountpoint == [UInt8(ascii: "/")] && $0.id != found?.id }
        while let mount = found {
            above.removeAll { $0.id == mount.id }
            guard let next = Self.first(of: above.filter { $0.parent == mount.id }) else { return mount }
            found = next
        }
        return nil
    }

    /// The one that a walk along their common path comes to first; of several at one place the last.
    private static func first(of mounts: [MountEntry]) -> MountEntry? {
        mounts.reversed().min { $0.mountpoint.count < $1.mountpoint.count }
    }
}

extension MountEntry {
    /// `36 35 98:0 /root /point rw,noatime master:1 shared:2 - ext4 /dev/sda rw,errors=continue`
    init?(parsing line: ArraySlice<UInt8>) {
        let fields = line.split(separator: UInt8(ascii: " "))
        // Any number of optional fields stands before the lone dash.
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

    /// Options are ASCII, separated by commas; a comma inside a value is escaped as `\054`.
    fileprivate var words: [String] {
        split(separator: UInt8(ascii: ",")).map { String(decoding: $0.unescapingOctal(), as: UTF8.self) }
    }

    /// Space, tab, newline and backslash are written as three octal digits, as in `my\040folder`.
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
    /// Whether this clean absolute path is `directory` or lies below it, by the text alone.
    package func isPath(atOrBelow directory: [UInt8]) -> Bool {
        let slash = UInt8(ascii: "/")
        if directory == [slash] { return first == slash }
        return starts(with: directory) && (count == directory.count || self[directory.count] == slash)
    }

    /// The bytes as a C string for the length of a call.
    package func withPath<R: ~Copyable, E: Error>(_ body: (UnsafePointer<CChar>) throws(E) -> R) throws(E)
        -> R
    {
        let terminated = map { CChar(bitPattern: $0) } + [0]
        return try body(terminated)
    }
}

/// Reads a whole file whose size is not known beforehand, such as one in `/proc`.
package func readAll(_ path: String) throws(Errno) -> [UInt8] {
    let file = OwnedDescriptor(
        adopting: try retryingOnInterrupt { open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY) })
    return try file.readToEnd()
}

extension OwnedDescriptor {
    /// Reads to the end, however often the other side takes a break; to the first one that takes longer than is said.
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
