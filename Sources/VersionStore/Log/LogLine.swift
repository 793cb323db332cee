// SPDX-License-Identifier: Apache-2.0
import FoundationEssentials

/// One line of `kept.log`: JSON that people and scripts can read.
struct LogLine: Codable, Sendable {
    enum Event: String, Codable, Sendable {
        case kept
        case dropped
    }

    var event: Event
    var id: String
    /// ISO 8601 in UTC to the millisecond, for people; `nanoseconds` is what is read back.
    var time: String
    var nanoseconds: Int64
    /// Why it was kept, or dropped.
    var cause: String
    /// The path when it is text; `pathBytes` always holds it.
    var path: String?
    var pathBytes: Data?
    var user: UInt32?
    var group: UInt32?
    var mode: UInt32?
    var accessControlList: Data?
    /// The user whose step it was kept for.
    var by: UInt32?
    /// The directories above that not everybody could enter.
    var closed: [Directory]?
    var method: String?
    var device: UInt64?
    var inode: UInt64?
    /// Of a dropped file the bytes of `heldBy` that it held.
    var size: Int?
    /// The kept file that begins with all of a dropped one.
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

    /// Whether somebody let go of the file. A former release wrote of files that it did not see that they were dropped, too,
    /// and not seeing one may have been an error of the disk.
    var isDrop: Bool { event == .dropped && cause != "missing" }

    /// The file that holds what was dropped.
    var holder: VersionID? { heldBy.flatMap(VersionID.init) }

    /// What a `kept` line says; nil if it does not say enough, or is not one.
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

    /// The line with its newline.
    func bytes() -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        do {
            return Array(try encoder.encode(self)) + [UInt8(ascii: "\n")]
        } catch {
            preconditionFailure("a line of numbers, text and bytes is always JSON: \(error)")
        }
    }

    /// Nil for a line that a crash tore, or that means nothing to this release.
    static func read(_ bytes: ArraySlice<UInt8>) -> LogLine? {
        do {
            return try JSONDecoder().decode(LogLine.self, from: Data(bytes))
        } catch {
            // Who reads the log counts these lines and reports them.
            return nil
        }
    }

    /// `2026-11-21T00:35:00.923Z`
    private static func readable(_ nanoseconds: Int64) -> String {
        // Foundation's own milliseconds are off by one for every other moment: a Date is a binary fraction.
        let (seconds, rest) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000)
        let text = Date(timeIntervalSince1970: Double(seconds)).formatted(.iso8601)
        let milliseconds = String(1_000 + rest / 1_000_000).dropFirst()
        return "\(text.dropLast()).\(milliseconds)Z"
    }
}
