// SPDX-License-Identifier: Apache-2.0
import FoundationEssentials

/// One line of `kept.log`, in JSON, so that people and scripts can read it.
struct LogLine: Codable, Sendable {
    enum Event: String, Codable, Sendable {
        case kept
        case dropped
    }

    var event: Event
    var id: String
    /// The time in the form of ISO 8601, in UTC, with milliseconds. This field is for people; programs read `nanoseconds`.
    var time: String
    var nanoseconds: Int64
    /// Why the version was preserved or dropped.
    var cause: String
    /// The path of the document; nil if it is not valid UTF-8. `pathBytes` contains every path.
    var path: String?
    var pathBytes: Data?
    var user: UInt32?
    var group: UInt32?
    var mode: UInt32?
    var accessControlList: Data?
    /// The user that caused the version; nil if the daemon itself caused it.
    var by: UInt32?
    /// The rights of those directories above the document that some users could not enter when the version was preserved.
    var closed: [Directory]?
    var method: String?
    var device: UInt64?
    var inode: UInt64?
    /// The size of the version in bytes. In a `dropped` line with `heldBy`: the dropped version consists of this many bytes at
    /// the beginning of `heldBy`.
    var size: Int?
    /// The ID of a later version that begins with all contents of the dropped version; nil if there is no such version.
    var heldBy: String?

    struct Directory: Codable, Sendable {
        var user: UInt32
        var group: UInt32
        var mode: UInt32
        var accessControlList: Data?

        init(_ rights: FileRights) {
            (user, group, mode) = (rights.user, rights.group, rights.mode)
            accessControlList = rights.accessControlList.map { Data($0) }
        }

        var rights: FileRights {
            FileRights(
                user: user, group: group, mode: mode, accessControlList: accessControlList.map { Array($0) })
        }
    }

    init(dropping id: VersionID, reason: String, at time: Int64) {
        self.event = .dropped
        self.id = id.description
        self.time = Self.readable(time)
        self.nanoseconds = time
        self.cause = reason
    }

    init(dropping id: VersionID, heldBy holder: VersionID, size: Int, at time: Int64) {
        self.init(dropping: id, reason: "kept/\(holder) begins with all of it", at: time)
        self.heldBy = holder.description
        self.size = size
    }

    init(_ entry: VersionRecord) {
        event = .kept
        id = entry.id.description
        time = Self.readable(entry.time)
        nanoseconds = entry.time
        cause = entry.cause.rawValue
        path = String(validating: entry.path, as: UTF8.self)
        pathBytes = Data(entry.path)
        user = entry.rights.user
        group = entry.rights.group
        mode = entry.rights.mode
        accessControlList = entry.rights.accessControlList.map { Data($0) }
        by = entry.user
        closed = entry.closed.isEmpty ? nil : entry.closed.map(Directory.init)
        method = entry.method.rawValue
        device = entry.device
        inode = entry.inode
        size = entry.size
    }

    /// Whether the line says that its version was dropped.
    ///
    /// An earlier release wrote `dropped` lines with the cause `missing` for files that it did not find. These lines do not
    /// count, because the files can still exist: a disk error can have hidden them.
    var isDrop: Bool { event == .dropped && cause != "missing" }

    /// The ID of the later version that begins with the contents of the dropped version.
    var holder: VersionID? { heldBy.flatMap(VersionID.init) }

    /// The version that a `kept` line describes; nil for a `dropped` line, or if fields are missing.
    var entry: VersionRecord? {
        guard event == .kept, let id = VersionID(id), let user, let group, let mode else { return nil }
        return VersionRecord(
            id: id, path: pathBytes.map { Array($0) } ?? [], cause: PreservationCause(rawValue: cause),
            time: nanoseconds,
            rights: FileRights(
                user: user, group: group, mode: mode,
                accessControlList: accessControlList.map { Array($0) }),
            method: method.flatMap(PreservationMethod.init) ?? .unknown, device: device ?? 0,
            inode: inode ?? 0,
            size: size ?? 0, closed: (closed ?? []).map(\.rights), user: by)
    }

    /// The line as it is written to the log, with a newline at the end.
    func bytes() -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        do {
            return Array(try encoder.encode(self)) + [UInt8(ascii: "\n")]
        } catch {
            preconditionFailure("a line of numbers, text and bytes is always JSON: \(error)")
        }
    }

    /// Decodes one line of the log. Returns nil if a crash cut the line off, or if a later release wrote the line in another
    /// form.
    static func read(_ bytes: ArraySlice<UInt8>) -> LogLine? {
        do {
            return try JSONDecoder().decode(LogLine.self, from: Data(bytes))
        } catch {
            // The caller counts the lines that cannot be read, and reports their number.
            return nil
        }
    }

    /// Returns the time as text, for example `2026-11-21T00:35:00.923Z`.
    private static func readable(_ nanoseconds: Int64) -> String {
        // The milliseconds are computed from the integer, because a `Date` is a binary fraction. Foundation's milliseconds of a
        // `Date` are often too small by one.
        let (seconds, rest) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000)
        let text = Date(timeIntervalSince1970: Double(seconds)).formatted(.iso8601)
        let milliseconds = String(1_000 + rest / 1_000_000).dropFirst()
        return "\(text.dropLast()).\(milliseconds)Z"
    }
}
