// SPDX-License-Identifier: Apache-2.0

/// A pattern for file names. A part of the name may be the name of another file, the document.
///
/// The pattern is written as a text of literal bytes and of these pieces:
///
/// - `{D}`: the name of a document, at least one byte.
/// - `{.D}`: the name of a document that begins with a dot (vim does not put a second dot before `.bashrc`).
/// - `{D.}`: the name of a document that has an extension.
/// - `{N}`: one or more decimal digits.
/// - `{R}`: six characters as `mkstemp(3)` chooses them: letters, digits and underscores. At least one is no lowercase
///   letter: otherwise names with the words `standard` and `sedatives` would fit. One in two hundred names of mkstemp
///   does not fit for this reason.
/// - `?`: one letter or digit.
/// - `*`: any number of bytes, also none.
package struct NamePattern: Sendable {
    private enum Piece: Sendable {
        case literal([UInt8])
        case document(DocumentShape)
        case digits
        case random
        case character
        case anything

        /// The bytes of a literal piece; none for any other piece.
        var literal: [UInt8] { if case .literal(let bytes) = self { bytes } else { [] } }

        var leastLength: Int {
            switch self {
            case .literal(let bytes): bytes.count
            case .document(.any), .digits, .character: 1
            case .document(.hidden): 2
            case .document(.withExtension): 3
            case .random: 6
            case .anything: 0
            }
        }
    }

    private enum DocumentShape: Sendable {
        case any
        case hidden
        case withExtension

        func accepts(_ name: ArraySlice<UInt8>) -> Bool {
            switch self {
            case .any: !name.isEmpty
            case .hidden: name.count > 1 && name.first == UInt8(ascii: ".")
            case .withExtension:
                name.count > 2 && name.dropFirst().dropLast().contains(UInt8(ascii: "."))
            }
        }
    }

    private let pieces: [Piece]
    let leastLength: Int
    /// Each name that fits begins with the bytes `prefix` and ends with the bytes `suffix`.
    let prefix: [UInt8]
    let suffix: [UInt8]
    /// All literal bytes of the pattern. Each name that fits contains all of them.
    let literals: [UInt8]
    /// Whether each name that fits contains the name of a document.
    package let namesDocument: Bool

    package init(_ text: String) { self.init(bytes: Array(text.utf8)) }

    /// Parses the bytes of a pattern. The text may end in the middle of a character, so bytes are used and not a
    /// string.
    package init(bytes text: [UInt8]) {
        pieces = Self.parse(text)
        leastLength = pieces.reduce(0) { $0 + $1.leastLength }
        prefix = pieces.first?.literal ?? []
        suffix = pieces.last?.literal ?? []
        literals = pieces.flatMap(\.literal)
        namesDocument = pieces.contains { if case .document = $0 { true } else { false } }
    }

    /// Returns whether a name fits the pattern. If `document` is given, the document in the name must have this name. A
    /// pattern without `{D}` fits for every document.
    package func matches(_ name: [UInt8], of document: [UInt8]? = nil) -> Bool {
        var search = MatchAttempt(name: name, document: document, wanted: 0)
        return isWorthTrying(name) && run(&search, piece: 0, at: 0)
    }

    /// Returns the document names that a name may contain according to this pattern, the shortest first.
    package func documents(in name: [UInt8]) -> [[UInt8]] {
        guard namesDocument, isWorthTrying(name) else { return [] }
        var search = MatchAttempt(name: name, document: nil, wanted: SaveLimits.candidateDocuments)
        _ = run(&search, piece: 0, at: 0)
        return search.found
    }

    /// Returns false for most names that do not fit. Only their length, beginning and end are compared.
    private func isWorthTrying(_ name: [UInt8]) -> Bool {
        name.count >= leastLength && name.starts(with: prefix)
            && name.suffix(suffix.count).elementsEqual(suffix)
    }
}

/// One comparison of a name with a pattern.
private struct MatchAttempt {
    let name: [UInt8]
    /// The document's name that the compared file name must contain. Nil if the file name may contain any document's name.
    let document: [UInt8]?
    /// How many document names are searched before the comparison ends. With 0, it ends as soon as the name fits.
    let wanted: Int
    var captured: Range<Int> = 0..<0
    var found: [[UInt8]] = []

    mutating func finish() -> Bool {
        guard wanted > 0 else { return true }
        let document = Array(name[captured])
        if !found.contains(document) { found.append(document) }
        return found.count >= wanted
    }
}

extension NamePattern {
    private func run(_ search: inout MatchAttempt, piece index: Int, at position: Int) -> Bool {
        guard index < pieces.count else {
            return position == search.name.count && search.finish()
        }
        for end in ends(of: index, in: search, from: position) {
            if case .document = pieces[index] { search.captured = position..<end }
            if run(&search, piece: index + 1, at: end) { return true }
        }
        return false
    }

    /// Returns the positions at which a piece that begins at `position` may end.
    private func ends(of index: Int, in search: MatchAttempt, from position: Int) -> [Int] {
        let rest = search.name[position...]
        switch pieces[index] {
        case .literal(let bytes):
            return rest.starts(with: bytes) ? [position + bytes.count] : []
        case .document(let shape):
            if let document = search.document {
                let fits = rest.starts(with: document) && shape.accepts(document[...])
                return fits ? [position + document.count] : []
            }
            return places(in: search.name, from: position + 1, before: index + 1)
                .filter { shape.accepts(search.name[position..<$0]) }
        case .digits:
            let run = rest.prefix { isDigit($0) }
            return run.indices.map { $0 + 1 }
        case .random:
            return isRandom(rest.prefix(6)) ? [position + 6] : []
        case .character:
            return rest.first.map { isLetter($0) || isDigit($0) } == true ? [position + 1] : []
        case .anything:
            return places(in: search.name, from: position, before: index + 1)
        }
    }

    /// Returns the positions from `start` on at which the next piece of the pattern may begin. Only one byte is
    /// compared at each position.
    ///
    /// Each open checks a name, so the check of an ordinary name must be fast.
    private func places(in name: [UInt8], from start: Int, before next: Int) -> [Int] {
        guard next < pieces.count else { return start <= name.count ? [name.count] : [] }
        guard case .literal(let bytes) = pieces[next] else {
            return start <= name.count ? Array(start...name.count) : []
        }
        var places: [Int] = []
        for place in start..<max(start, name.count) where name[place] == bytes[0] { places.append(place) }
        return places
    }

    private static func parse(_ text: [UInt8]) -> [Piece] {
        let marks: [(String, Piece)] = [
            ("{D}", .document(.any)), ("{.D}", .document(.hidden)), ("{D.}", .document(.withExtension)),
            ("{N}", .digits), ("{R}", .random), ("?", .character), ("*", .anything),
        ]
        var pieces: [Piece] = []
        var literal: [UInt8] = []
        var rest = text[...]
        while let byte = rest.first {
            if let (mark, piece) = marks.first(where: { rest.starts(with: $0.0.utf8) }) {
                if !literal.isEmpty { pieces.append(.literal(literal)) }
                literal = []
                pieces.append(piece)
                rest = rest.dropFirst(mark.utf8.count)
            } else {
                literal.append(byte)
                rest = rest.dropFirst()
            }
        }
        return literal.isEmpty ? pieces : pieces + [.literal(literal)]
    }
}

private func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }

private func isLowercase(_ byte: UInt8) -> Bool {
    (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte)
}

private func isLetter(_ byte: UInt8) -> Bool { isLowercase(byte | 0x20) }

private func isRandom(_ bytes: ArraySlice<UInt8>) -> Bool {
    bytes.count == 6
        && bytes.allSatisfy { isLetter($0) || isDigit($0) || $0 == UInt8(ascii: "_") }
        && !bytes.allSatisfy(isLowercase)
}
