// SPDX-License-Identifier: Apache-2.0

/// What the name of a conflict copy says: the document, and the tool that made the copy.
///
/// A tool that synchronises files makes a conflict copy if a document was changed at two places. One of the two contents then
/// has the document's name, and the other has the name of the conflict copy, in the same directory.
package struct ConflictCopyName: Hashable, Sendable {
    package enum Tool: String, Hashable, Sendable, CaseIterable {
        case syncthing = "Syncthing"
        case dropbox = "Dropbox"
        case nextcloud = "Nextcloud"
        case ownCloud = "ownCloud"
        case seafile = "Seafile"
        case unison = "Unison"
        case rclone
    }

    package let tool: Tool
    /// The name of the document in the same directory.
    package let document: [UInt8]

    /// Finds the meaning of a name. Returns nil for an ordinary name.
    package init?(_ name: [UInt8]) {
        guard Self.mayBeCopy(name) else { return nil }
        for find in [Self.syncthing, Self.ownCloud, Self.parenthesis, Self.rclone] {
            guard let found = find(name), !found.document.isEmpty else { continue }
            self = found
            return
        }
        return nil
    }

    private init(_ tool: Tool, _ parts: ArraySlice<UInt8>...) {
        self.tool = tool
        document = parts.flatMap { Array($0) }
    }

    private static let commonWord = word("onflict")
    private static let pathWord = word("..path")

    /// Whether the name contains a word that each conflict copy has. Each rename and removal calls this, and most names have
    /// none of these words.
    private static func mayBeCopy(_ name: [UInt8]) -> Bool {
        name.count > 7 && (name.contains(commonWord) || name[(name.count - 7)...].starts(with: pathWord))
    }

    /// `NAME.sync-conflict-DATE-TIME-DEVICE.EXTENSION`. The first releases wrote no DEVICE.
    private static func syncthing(_ name: [UInt8]) -> ConflictCopyName? {
        guard let mark = name.lastRange(of: word(".sync-conflict-")),
            var rest = afterTime(name[mark.upperBound...])
        else { return nil }
        if rest.first == UInt8(ascii: "-") {
            guard rest.dropFirst().prefix(7).allSatisfy({ isUpperCase($0) || isDigit($0) }), rest.count >= 8
            else { return nil }
            rest = rest.dropFirst(8)
        }
        guard isExtension(rest) else { return nil }
        return ConflictCopyName(.syncthing, name[..<mark.lowerBound], rest)
    }

    /// `NAME_conflict-DATE-TIME.EXTENSION`.
    private static func ownCloud(_ name: [UInt8]) -> ConflictCopyName? {
        guard let mark = name.lastRange(of: word("_conflict-")),
            let rest = afterTime(name[mark.upperBound...]),
            isExtension(rest)
        else { return nil }
        return ConflictCopyName(.ownCloud, name[..<mark.lowerBound], rest)
    }

    /// `NAME (…).EXTENSION`. What is between the parentheses differs from tool to tool.
    private static func parenthesis(_ name: [UInt8]) -> ConflictCopyName? {
        guard let open = name.lastRange(of: word(" (")),
            let close = name[open.upperBound...].firstIndex(of: UInt8(ascii: ")"))
        else { return nil }
        let (inside, rest) = (Array(name[open.upperBound..<close]), name[(close + 1)...])
        guard isExtension(rest), let tool = tool(writing: inside) else { return nil }
        return ConflictCopyName(tool, name[..<open.lowerBound], rest)
    }

    private static func tool(writing text: [UInt8]) -> Tool? {
        if text.starts(with: word("conflicted copy ")) { return hasDate(text) ? .nextcloud : nil }
        if text.contains(word("'s conflicted copy")) { return .dropbox }
        if text.starts(with: word("SFConflict ")) { return hasDate(text) ? .seafile : nil }
        guard text.starts(with: word("conflict")) else { return nil }
        // "conflict_on_2026-11-28", and "conflict #1_on_2026-11-28" if that name exists already.
        let isNumbered = text.dropFirst(8).starts(with: word(" #"))
        let rest = isNumbered ? text.dropFirst(10).drop(while: isDigit) : text.dropFirst(8)
        let isUnisons = [word("_on_"), word(" on ")].contains { rest.starts(with: $0) }
        return isUnisons && isDate(rest.dropFirst(4)) && rest.count == 14 ? .unison : nil
    }

    /// `NAME.conflict1`, `NAME.conflict1.EXTENSION` and `NAME..path1`.
    private static func rclone(_ name: [UInt8]) -> ConflictCopyName? {
        if name.suffix(7).starts(with: word("..path")), name.last.map(isDigit) ?? false {
            return ConflictCopyName(.rclone, name.dropLast(7))
        }
        guard let mark = name.lastRange(of: word(".conflict")) else { return nil }
        let rest = name[mark.upperBound...]
        let digits = rest.prefix(while: isDigit)
        guard !digits.isEmpty, isExtension(rest.dropFirst(digits.count)) else { return nil }
        return ConflictCopyName(.rclone, name[..<mark.lowerBound], rest.dropFirst(digits.count))
    }

    /// Returns the bytes after `20261128-101530`, or nil if the bytes begin otherwise.
    private static func afterTime(_ bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        let time = bytes.prefix(15)
        let isTime =
            time.count == 15 && time.prefix(8).allSatisfy(isDigit)
            && time.dropFirst(8).first == UInt8(ascii: "-") && time.suffix(6).allSatisfy(isDigit)
        return isTime ? bytes.dropFirst(15) : nil
    }

    /// Whether the bytes are the end of a name: nothing, or an extension.
    private static func isExtension(_ rest: ArraySlice<UInt8>) -> Bool {
        rest.isEmpty || rest.first == UInt8(ascii: ".") && rest.count > 1
    }

    private static func hasDate(_ text: [UInt8]) -> Bool {
        text.indices.contains { isDate(text[$0...]) }
    }

    /// Whether the bytes begin with a date in the form `2026-11-28`.
    private static func isDate(_ bytes: ArraySlice<UInt8>) -> Bool {
        let date = bytes.prefix(10)
        return date.count == 10
            && zip(date, word("0000-00-00")).allSatisfy { $1 == UInt8(ascii: "-") ? $0 == $1 : isDigit($0) }
    }

    private static func isDigit(_ byte: UInt8) -> Bool { UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte }
    private static func isUpperCase(_ byte: UInt8) -> Bool { UInt8(ascii: "A")...UInt8(ascii: "Z") ~= byte }
    private static func word(_ text: StaticString) -> [UInt8] {
        text.withUTF8Buffer { Array($0) }
    }
}

extension [UInt8] {
    /// The last place of some bytes.
    fileprivate func lastRange(of bytes: [UInt8]) -> Range<Int>? {
        guard bytes.count <= count else { return nil }
        for start in stride(from: count - bytes.count, through: 0, by: -1)
        where self[start] == bytes[0] && self[start..<(start + bytes.count)].elementsEqual(bytes) {
            return start..<(start + bytes.count)
        }
        return nil
    }

    fileprivate func contains(_ bytes: [UInt8]) -> Bool { lastRange(of: bytes) != nil }
}
