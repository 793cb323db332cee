// SPDX-License-Identifier: Apache-2.0

/// A pattern for the paths of files below the root of a source. The notation is that of gitignore(5), without `!`.
///
/// A pattern without a `/` fits a name in every directory. Any other pattern begins at the root. A pattern that fits a
/// directory fits each file below it; with a `/` at its end, it fits only these files.
public struct PathGlob: Hashable, Sendable {
    /// The fault in the text of a pattern. The description is the end of a sentence for users.
    public enum Fault: Error, Hashable, Sendable, CustomStringConvertible {
        case empty
        case negation
        case tooLong
        case controlCharacter
        case emptyPart
        case parentDirectory
        case doubleStar
        case openBracket
        case wideBracket
        case openEscape

        public var description: String {
            switch self {
            case .empty: "it fits no file; write a name, or '*' for all files"
            case .negation: "'!' has no effect here; write a later entry with another setting instead"
            case .tooLong: "it is longer than \(PathGlob.longest) bytes; make it shorter"
            case .controlCharacter: "it has a control character; take that out"
            case .emptyPart: "it has '//'; write one '/'"
            case .parentDirectory: "it has the part '.' or '..'; write the path from the root of the mount"
            case .doubleStar: "'**' must be a whole part, as in 'a/**/b'; write '*' for a part of a name"
            case .openBracket: "it has a '[' without a ']'; add the ']', or write '\\['"
            case .wideBracket: "only ASCII characters may be in brackets; write '?' instead"
            case .openEscape: "it ends with '\\'; take that out, or write '\\\\'"
            }
        }
    }

    private enum Token: Hashable, Sendable {
        case byte(UInt8)
        case character
        case set([ClosedRange<UInt8>], isExcluding: Bool)
        case anything
    }

    private enum Part: Hashable, Sendable {
        case name([Token])
        /// Any number of directories, or none: `**`.
        case anyDepth
    }

    public static let longest = 1024

    /// The text of the pattern, as a user wrote it.
    public let text: String
    private let parts: [Part]

    public init(_ text: String) throws(Fault) {
        self.text = text
        let bytes = Array(text.utf8)
        guard bytes.count <= Self.longest else { throw .tooLong }
        guard !bytes.contains(where: { $0 < 0x20 || $0 == 0x7F }) else { throw .controlCharacter }
        guard bytes.first != UInt8(ascii: "!") else { throw .negation }
        var names = bytes.split(separator: slash, omittingEmptySubsequences: false)
        let isOnlyBelow = names.count > 1 && names.last?.isEmpty == true
        if isOnlyBelow { names.removeLast() }
        let beginsAtRoot = names.count > 1
        if beginsAtRoot, names[0].isEmpty { names.removeFirst() }
        guard names.contains(where: { !$0.isEmpty }) else { throw .empty }
        var parts: [Part] = beginsAtRoot ? [] : [.anyDepth]
        for name in names { parts.append(try Self.part(name)) }
        // `a/` and `a/**` fit the files below `a`, and not a file `a`.
        let isOpenEnded = parts.count > 1 && parts.last == .anyDepth
        if isOnlyBelow || isOpenEnded { parts.append(.name([.anything])) }
        self.parts = parts + [.anyDepth]
    }

    private static func part(_ name: ArraySlice<UInt8>) throws(Fault) -> Part {
        guard !name.isEmpty else { throw .emptyPart }
        guard !name.elementsEqual(".".utf8), !name.elementsEqual("..".utf8) else { throw .parentDirectory }
        if name.elementsEqual("**".utf8) { return .anyDepth }
        var (tokens, rest): ([Token], ArraySlice<UInt8>) = ([], name)
        while let byte = rest.popFirst() {
            switch byte {
            case star:
                guard rest.first != star else { throw .doubleStar }
                tokens.append(.anything)
            case UInt8(ascii: "?"): tokens.append(.character)
            case UInt8(ascii: "["): tokens.append(try set(from: &rest))
            case UInt8(ascii: "\\"):
                guard let escaped = rest.popFirst() else { throw .openEscape }
                tokens.append(.byte(escaped))
            default: tokens.append(.byte(byte))
            }
        }
        return .name(tokens)
    }

    /// Parses a set of characters in brackets, of which the first bracket is already read.
    private static func set(from rest: inout ArraySlice<UInt8>) throws(Fault) -> Token {
        let isExcluding = rest.first == UInt8(ascii: "!") || rest.first == UInt8(ascii: "^")
        if isExcluding { rest.removeFirst() }
        var ranges: [ClosedRange<UInt8>] = []
        while let low = rest.popFirst() {
            // As in gitignore(5), a `]` at the beginning is a member of the set.
            if low == closing, !ranges.isEmpty { return .set(ranges, isExcluding: isExcluding) }
            var high = low
            if rest.first == UInt8(ascii: "-"), let end = rest.dropFirst().first, end != closing {
                rest.removeFirst(2)
                high = end
            }
            guard low < 0x80, high < 0x80 else { throw .wideBracket }
            ranges.append(min(low, high)...max(low, high))
        }
        throw .openBracket
    }

    /// Returns whether the pattern fits the file with this path, or a directory above the file. The path is relative to the
    /// root, without a `/` at its beginning.
    public func matches(_ path: [UInt8]) -> Bool {
        // After `**`, the search tries one name after another. Only the last `**` needs such trials: a name that an
        // earlier one could take instead is also open to the last one.
        var (part, place) = (0, 0)
        var trial: (part: Int, place: Int)?
        while true {
            if part == parts.count {
                if place >= path.count { return true }
            } else if case .anyDepth = parts[part] {
                if part == parts.count - 1 { return true }
                trial = (part + 1, place)
                part += 1
                continue
            } else if case .name(let tokens) = parts[part], place < path.count {
                let end = path[place...].firstIndex(of: slash) ?? path.count
                if Self.matches(tokens, path[place..<end]) {
                    (part, place) = (part + 1, end + 1)
                    continue
                }
            }
            guard let last = trial, last.place < path.count else { return false }
            let next = (path[last.place...].firstIndex(of: slash) ?? path.count) + 1
            trial = (last.part, next)
            (part, place) = (last.part, next)
        }
    }

    private static func matches(_ tokens: [Token], _ name: ArraySlice<UInt8>) -> Bool {
        var (token, place) = (0, name.startIndex)
        var trial: (token: Int, place: Int)?
        while token < tokens.count || place < name.endIndex {
            if token < tokens.count {
                if case .anything = tokens[token] {
                    trial = (token + 1, place)
                    token += 1
                    continue
                }
                if place < name.endIndex, let next = end(of: tokens[token], in: name, from: place) {
                    (token, place) = (token + 1, next)
                    continue
                }
            }
            guard let last = trial, last.place < name.endIndex else { return false }
            trial = (last.token, last.place + 1)
            (token, place) = (last.token, last.place + 1)
        }
        return true
    }

    /// Returns the place after the character at `place`, or nil if the token does not fit that character.
    private static func end(of token: Token, in name: ArraySlice<UInt8>, from place: Int) -> Int? {
        let byte = name[place]
        switch token {
        case .byte(let wanted): return byte == wanted ? place + 1 : nil
        case .anything: return nil
        case .character: return endOfCharacter(in: name, from: place)
        case .set(let ranges, let isExcluding):
            let isMember = ranges.contains { $0.contains(byte) }
            guard isMember != isExcluding else { return nil }
            return endOfCharacter(in: name, from: place)
        }
    }

    /// Returns the place after a character of UTF-8. A byte that begins no character counts as one.
    private static func endOfCharacter(in name: ArraySlice<UInt8>, from place: Int) -> Int {
        guard name[place] >= 0xC0 else { return place + 1 }
        return name[(place + 1)...].prefix(3).firstIndex { $0 & 0xC0 != 0x80 }
            ?? min(place + 4, name.endIndex)
    }
}

private let slash = UInt8(ascii: "/")
private let star = UInt8(ascii: "*")
private let closing = UInt8(ascii: "]")
