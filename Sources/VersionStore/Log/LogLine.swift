// SPDX-License-Identifier: Apache-2.0
import FoundationEssentials

/// One line of `kept.log`, in JSON, so that people and scripts can read it.
struct LogLine: Encodable, Sendable {
    /// What the line says. This is not an enum, because a later release can write further events. A rewritten log keeps their
    /// lines as long as the log has the version that they name.
    struct Event: RawRepresentable, Encodable, Hashable, Sendable {
        let rawValue: String

        static let kept = Event(rawValue: "kept")
        static let dropped = Event(rawValue: "dropped")
        /// The standing of the version changed.
        static let settled = Event(rawValue: "settled")
        /// A document was moved. The line with `formerPathBytes` applies to each version of the former path, up to the version
        /// `id`. The line without it applies to the version `id` only.
        static let moved = Event(rawValue: "moved")
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
    var pathBytes: Bytes?
    var user: UInt32?
    var group: UInt32?
    var mode: UInt32?
    var accessControlList: Bytes?
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
    /// The standing of the version; nil for the standing that follows from the cause.
    var standing: String?
    var author: Actor?
    var saver: Actor?
    /// The generation that the saver had read, and the time at which that generation was written.
    var read: String?
    var readNanoseconds: Int64?
    var generation: String?
    /// The name of the conflict copy that has the contents.
    var conflictCopy: Bytes?
    var formerPath: String?
    var formerPathBytes: Bytes?
    /// How a move concerns the paths below its two paths, and the second path.
    var move: String?

    /// Bytes of any values. In the log they are text, in base64.
    struct Bytes: Encodable, Sendable {
        let value: [UInt8]

        init(_ value: [UInt8]) { self.value = value }

        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            try container.encode(Data(value))
        }
    }

    struct Actor: Encodable, Sendable {
        var program: String
        var pid: Int32?
        var user: UInt32?
        var run: String?

        init(_ actor: VersionActor) {
            (program, pid, user, run) = (actor.program, actor.process, actor.user, actor.run)
        }

        var actor: VersionActor { VersionActor(program: program, process: pid, user: user, run: run) }
    }

    struct Directory: Encodable, Sendable {
        var user: UInt32
        var group: UInt32
        var mode: UInt32
        var accessControlList: Bytes?

        init(_ rights: FileRights) {
            (user, group, mode) = (rights.user, rights.group, rights.mode)
            accessControlList = rights.accessControlList.map { Bytes($0) }
        }

        var rights: FileRights {
            FileRights(
                user: user, group: group, mode: mode, accessControlList: accessControlList?.value)
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

    init(settling id: VersionID, as standing: Standing, at time: Int64) {
        event = .settled
        self.id = id.description
        self.time = Self.readable(time)
        nanoseconds = time
        cause = standing.rawValue
        self.standing = standing.rawValue
    }

    /// Makes the line of a move. `time` is the present time.
    init(_ move: DocumentMove, at time: Int64) {
        event = .moved
        id = move.last.description
        self.time = Self.readable(time)
        nanoseconds = time
        cause = "moved"
        path = String(validating: move.to, as: UTF8.self)
        pathBytes = Bytes(move.to)
        formerPath = String(validating: move.from, as: UTF8.self)
        formerPathBytes = Bytes(move.from)
        self.move = move.kind.rawValue
    }

    /// Makes the line that gives one version another path.
    init(moving id: VersionID, to path: [UInt8], at time: Int64) {
        event = .moved
        self.id = id.description
        self.time = Self.readable(time)
        nanoseconds = time
        cause = "moved"
        self.path = String(validating: path, as: UTF8.self)
        pathBytes = Bytes(path)
    }

    init(_ entry: VersionRecord) {
        event = .kept
        id = entry.id.description
        time = Self.readable(entry.time)
        nanoseconds = entry.time
        cause = entry.cause.rawValue
        path = String(validating: entry.path, as: UTF8.self)
        pathBytes = Bytes(entry.path)
        user = entry.rights.user
        group = entry.rights.group
        mode = entry.rights.mode
        accessControlList = entry.rights.accessControlList.map { Bytes($0) }
        by = entry.user
        closed = entry.closed.isEmpty ? nil : entry.closed.map(Directory.init)
        method = entry.method.rawValue
        device = entry.device
        inode = entry.inode
        size = entry.size
        standing = entry.standing == entry.cause.standing ? nil : entry.standing.rawValue
        guard let provenance = entry.provenance else { return }
        author = provenance.author.map(Actor.init)
        saver = provenance.saver.map(Actor.init)
        (read, readNanoseconds) = (provenance.readGeneration, provenance.readTime)
        generation = provenance.generation
        conflictCopy = provenance.conflictCopy.map { Bytes($0) }
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
            id: id, path: pathBytes?.value ?? [], cause: PreservationCause(rawValue: cause),
            time: nanoseconds,
            rights: FileRights(
                user: user, group: group, mode: mode,
                accessControlList: accessControlList?.value),
            method: method.flatMap(PreservationMethod.init) ?? .unknown, device: device ?? 0,
            inode: inode ?? 0,
            size: size ?? 0, closed: (closed ?? []).map(\.rights), user: by, standing: newStanding,
            provenance: provenance)
    }

    /// The standing that the line gives its version; nil if the line says nothing of it. A standing of a later release counts
    /// as a conflict, so that the version stays.
    var newStanding: Standing? { standing.map { Standing(rawValue: $0) ?? .conflict } }

    private var provenance: Provenance? {
        let provenance = Provenance(
            author: author?.actor, saver: saver?.actor, readGeneration: read, readTime: readNanoseconds,
            generation: generation, conflictCopy: conflictCopy?.value)
        return provenance == Provenance() ? nil : provenance
    }

    /// The move that a `moved` line of a document describes; nil for other lines.
    var documentMove: DocumentMove? {
        guard event == .moved, let last = VersionID(id), let former = formerPathBytes, let pathBytes
        else { return nil }
        return DocumentMove(
            from: former.value, to: pathBytes.value,
            kind: move.flatMap(DocumentMove.Kind.init) ?? .file, last: last)
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
