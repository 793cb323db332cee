// SPDX-License-Identifier: Apache-2.0
import FoundationEssentials

package struct VersionListParameters: Hashable, Sendable, Codable {
    private enum Key: String, CodingKey { case path, pathBytes, before, since, by }

    package var path: PathForm
    /// The ID of a version; only earlier versions are listed. With the last ID of a list, a client gets the next page.
    package var before: String?
    /// The earliest time of the versions, in seconds since 1970.
    package var since: Double?
    /// The name of a program or run that wrote the contents or saved over them.
    package var by: String?

    /// Makes the parameters for a list of versions. The list contains the versions of items at or below `path`, relative to the
    /// root of the mount. An empty path asks for all versions.
    package init(path: [UInt8], before: String? = nil, since: Double? = nil, by: String? = nil) {
        self.path = PathForm(path)
        (self.before, self.since, self.by) = (before, since, by)
    }

    package init(from decoder: any Decoder) throws {
        path = try PathForm(from: decoder).checkedBelowRoot()
        let container = try decoder.container(keyedBy: Key.self)
        before = try container.decodeIfPresent(String.self, forKey: .before)
        since = try container.decodeIfPresent(Double.self, forKey: .since)
        by = try container.decodeIfPresent(String.self, forKey: .by)?.checked("by", ProtocolLimits.actorBytes)
        if let before { _ = try before.checkedVersionID("before") }
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        try container.encode(path.path, forKey: .path)
        try container.encodeIfPresent(path.pathBytes, forKey: .pathBytes)
        try container.encodeIfPresent(before, forKey: .before)
        try container.encodeIfPresent(since, forKey: .since)
        try container.encodeIfPresent(by, forKey: .by)
    }
}

package struct VersionListResult: Hashable, Sendable, Codable {
    package var entries: [VersionForm]
    /// Whether versions are missing, because there are more than ``ProtocolLimits/listEntries`` or their entries are too long.
    /// The newest versions are listed.
    package var isTruncated: Bool

    package init(entries: [VersionForm], isTruncated: Bool) {
        self.entries = entries
        self.isTruncated = isTruncated
    }
}

/// The description of one preserved version.
package struct VersionForm: Hashable, Sendable, Codable {
    package var id: String
    package var path: String
    package var pathBytes: String?
    package var cause: String
    /// The time at which the contents were preserved, in seconds since 1970.
    package var time: Double
    package var size: Int64
    package var user: UInt32
    package var group: UInt32
    package var mode: UInt32
    /// The programs that still write to the file of the version; nil if the contents of the version cannot change any more.
    package var writers: [String]?
    /// Whether two programs disagree about the contents: `plain`, `suspected`, `conflict` or `resolved`.
    package var standing: String?
    /// The program that wrote the contents.
    package var author: VersionActorForm?
    /// The program that saved over the contents.
    package var saver: VersionActorForm?
    /// The generation that the saver had read, and the time at which that generation was written, in seconds since 1970.
    package var read: String?
    package var readTime: Double?
    /// The generation of the contents.
    package var generation: String?
    /// The name of the conflict copy that has the contents. It was in the directory of the document.
    package var conflictCopy: String?
    package var conflictCopyBytes: String?

    package init(
        id: String, path: [UInt8], cause: String, time: Double, size: Int64, user: UInt32, group: UInt32,
        mode: UInt32
    ) {
        self.id = id
        (self.path, self.pathBytes) = PathForm(path).parts
        self.cause = cause
        self.time = time
        self.size = size
        self.user = user
        self.group = group
        self.mode = mode
    }

    /// The most bytes that the description takes in a message: all names of members and numbers, and the texts.
    package var mostBytes: Int {
        var texts: [String?] = [
            id, path, pathBytes, cause, standing, read, generation, conflictCopy, conflictCopyBytes,
        ]
        for actor in [author, saver] { texts += [actor?.program, actor?.run] }
        let bytes = texts.compactMap(\.self).reduce(0) { $0 + $1.mostBytesInJSON }
        return Self.mostBytesWithoutTexts + (writers ?? []).reduce(bytes) { $0 + $1.mostBytesInJSON + 3 }
    }

    /// All names of members take some 260 bytes, the longest numbers 140 bytes, and the punctuation of all members 40 bytes.
    private static let mostBytesWithoutTexts = 512

    /// Notes the name of the conflict copy that has the contents.
    package mutating func setConflictCopy(_ name: [UInt8]) {
        (conflictCopy, conflictCopyBytes) = PathForm(name).parts
    }

    /// The path of the conflict copy, relative to the root of the mount; nil if there is none.
    package var conflictCopyPath: [UInt8]? {
        guard let conflictCopy, let name = PathForm(conflictCopy, conflictCopyBytes).bytes, !name.isEmpty,
            !name.contains(UInt8(ascii: "/")), let document = PathForm(path, pathBytes).bytes
        else { return nil }
        let end = document.lastIndex(of: UInt8(ascii: "/")).map { $0 + 1 } ?? 0
        return document[..<end] + name
    }
}

/// A program that has part in a version.
package struct VersionActorForm: Hashable, Sendable, Codable {
    package var program: String
    package var pid: Int32?
    package var user: UInt32?
    /// The name of the program's run.
    package var run: String?

    package init(program: String, pid: Int32? = nil, user: UInt32? = nil, run: String? = nil) {
        (self.program, self.pid, self.user, self.run) = (program, pid, user, run)
    }
}

package struct VersionReadParameters: Hashable, Sendable, Codable {
    private enum Key: String, CodingKey { case id, offset, length, path, pathBytes }

    package var id: String
    package var offset: Int64
    package var length: Int
    /// A path at or below which the item of the version must be. Otherwise the request fails. Nil allows every version.
    package var path: PathForm?

    package init(id: String, offset: Int64, length: Int, of path: [UInt8]? = nil) {
        self.id = id
        self.offset = offset
        self.length = length
        self.path = path.map { PathForm($0) }
    }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: Key.self)
        if container.contains(.path) || container.contains(.pathBytes) {
            path = try PathForm(from: decoder).checkedBelowRoot()
        }
        id = try container.decode(String.self, forKey: .id)
        offset = try container.decode(Int64.self, forKey: .offset)
        length = try container.decode(Int.self, forKey: .length)
        guard VersionIDFormat.isValid(id) else {
            throw ProtocolFailure.invalidParameters("'id' is not the ID of a version")
        }
        guard offset >= 0, (1...ProtocolLimits.readBytes).contains(length) else {
            throw ProtocolFailure.invalidParameters(
                "'offset' must not be negative and 'length' be from 1 to \(ProtocolLimits.readBytes)")
        }
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        try container.encode(id, forKey: .id)
        try container.encode(offset, forKey: .offset)
        try container.encode(length, forKey: .length)
        try container.encodeIfPresent(path?.path, forKey: .path)
        try container.encodeIfPresent(path?.pathBytes, forKey: .pathBytes)
    }
}

package struct VersionReadResult: Hashable, Sendable, Codable {
    /// The bytes that were read, in base64.
    package var content: String
    /// Whether the version ends after these bytes.
    package var isAtEnd: Bool

    package init(content: [UInt8], isAtEnd: Bool) {
        self.content = Data(content).base64EncodedString()
        self.isAtEnd = isAtEnd
    }

    /// The bytes that were read; nil if `content` is not base64.
    package var bytes: [UInt8]? { Data(base64Encoded: content).map { Array($0) } }
}

package struct PreserveParameters: Hashable, Sendable, Codable {
    private enum Key: String, CodingKey { case contents }

    package var path: PathForm
    /// The file with the contents of the version. Nil if the document itself has them, because the client is about to overwrite
    /// them.
    package var contents: PathForm?

    package init(path: [UInt8], contents: [UInt8]? = nil) {
        self.path = PathForm(path)
        self.contents = contents.map { PathForm($0) }
    }

    package init(from decoder: any Decoder) throws {
        path = try PathForm(required: decoder).checkedBelowRoot()
        let container = try decoder.container(keyedBy: Key.self)
        if container.contains(.contents), try !container.decodeNil(forKey: .contents) {
            let form = try PathForm(required: try container.superDecoder(forKey: .contents))
            contents = try form.checkedBelowRoot()
        }
    }

    package func encode(to encoder: any Encoder) throws {
        try path.encode(to: encoder)
        var container = encoder.container(keyedBy: Key.self)
        try container.encodeIfPresent(contents, forKey: .contents)
    }
}

package struct PreserveResult: Hashable, Sendable, Codable {
    /// The ID of the version; nil if the file is empty.
    package var id: String?
    package init(id: String?) { self.id = id }
}

/// The versions that `versions/resolve` or `versions/remove` changes.
package struct VersionSelectionParameters: Hashable, Sendable, Codable {
    private enum Key: String, CodingKey { case path, pathBytes, ids }

    /// The path of a document or directory. The versions must belong to it, or to a document below it.
    package var path: PathForm
    /// The versions; nil for all versions in conflict.
    package var ids: [String]?

    package init(path: [UInt8], ids: [String]? = nil) {
        self.path = PathForm(path)
        self.ids = ids
    }

    package init(from decoder: any Decoder) throws {
        path = try PathForm(required: decoder).checkedBelowRoot()
        let container = try decoder.container(keyedBy: Key.self)
        ids = try container.decodeIfPresent([String].self, forKey: .ids)
        guard let ids else { return }
        guard (1...ProtocolLimits.listEntries).contains(ids.count) else {
            throw ProtocolFailure.invalidParameters(
                "'ids' has from 1 to \(ProtocolLimits.listEntries) members")
        }
        for id in ids { _ = try id.checkedVersionID("ids") }
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        try container.encode(path.path, forKey: .path)
        try container.encodeIfPresent(path.pathBytes, forKey: .pathBytes)
        try container.encodeIfPresent(ids, forKey: .ids)
    }

    /// Throws if the versions are not listed, because a client must say which versions it removes.
    func checkedForRemoving() throws(ProtocolFailure) -> VersionSelectionParameters {
        guard ids != nil else { throw .invalidParameters("'versions/remove' needs 'ids'") }
        return self
    }
}

package struct VersionPruneParameters: Hashable, Sendable, Codable {
    private enum Key: String, CodingKey { case path, pathBytes, until }

    package var path: PathForm
    /// The time of the last versions that are removed, in seconds since 1970; nil for versions of any time.
    package var until: Double?

    package init(path: [UInt8], until: Double? = nil) {
        self.path = PathForm(path)
        self.until = until
    }

    package init(from decoder: any Decoder) throws {
        path = try PathForm(required: decoder).checkedBelowRoot()
        until = try decoder.container(keyedBy: Key.self).decodeIfPresent(Double.self, forKey: .until)
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        try container.encode(path.path, forKey: .path)
        try container.encodeIfPresent(path.pathBytes, forKey: .pathBytes)
        try container.encodeIfPresent(until, forKey: .until)
    }
}

package struct VersionChangeResult: Hashable, Sendable, Codable {
    /// The number of versions that were resolved or removed.
    package var count: Int
    package init(count: Int) { self.count = count }
}

extension String {
    /// The most bytes of the text in JSON, without quotation marks. A control character can become an escape of six bytes.
    fileprivate var mostBytesInJSON: Int {
        utf8.reduce(0) { $0 + ($1 < 0x20 || $1 == 0x7F || $1 == 0x22 || $1 == 0x5C ? 6 : 1) }
    }

    fileprivate func checkedVersionID(_ name: String) throws(ProtocolFailure) -> String {
        guard VersionIDFormat.isValid(self) else {
            throw .invalidParameters("'\(name)' is not the ID of a version")
        }
        return self
    }
}

/// The form of a version's ID: sixteen hexadecimal digits. Each ID from a client is checked before it is used in a path of the
/// store.
package enum VersionIDFormat {
    package static func isValid(_ id: String) -> Bool {
        let digits = Array("0123456789abcdef".utf8)
        return id.utf8.count == 16 && id.utf8.allSatisfy(digits.contains)
    }

    /// The ID of the version with this number.
    package static func text(of number: UInt64) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }
}
