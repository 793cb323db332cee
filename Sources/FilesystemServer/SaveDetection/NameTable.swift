// SPDX-License-Identifier: Apache-2.0

/// A table with a pattern of names in each row. A search finds the first row with a pattern that fits a name.
///
/// Each new file's name is compared with a hundred rows. To exclude most rows quickly, the table stores a length, two
/// bytes and a set of characters for each row. The pattern itself is compared only if these fit.
struct NameTable<Row: Sendable>: Sendable {
    private struct NamePrefilter: Sendable {
        let leastLength: Int
        /// The first byte and the last byte of each name that fits. Nil if any byte is possible.
        let first, last: UInt8?
        /// The ASCII characters that each name that fits must contain.
        let characters: ASCIISet

        func mayFit(_ count: Int, from first: UInt8, to last: UInt8) -> Bool {
            count >= leastLength && (self.first ?? first) == first && (self.last ?? last) == last
        }
    }

    private let rows: [Row]
    private let patterns: [NamePattern]
    private let prefilters: [NamePrefilter]

    init(_ rows: [Row], by pattern: (Row) -> NamePattern) {
        self.rows = rows
        patterns = rows.map(pattern)
        prefilters = patterns.map {
            NamePrefilter(
                leastLength: $0.leastLength, first: $0.prefix.first, last: $0.suffix.last,
                characters: ASCIISet($0.literals))
        }
    }

    /// Returns the first row that fits a name. If `document` is given, the document in the name must have this name.
    func first(for name: [UInt8], of document: [UInt8]? = nil) -> Row? {
        guard let first = name.first, let last = name.last else { return nil }
        var known: ASCIISet?
        for index in prefilters.indices where prefilters[index].mayFit(name.count, from: first, to: last) {
            let characters = known ?? ASCIISet(name)
            known = characters
            guard characters.isSuperset(of: prefilters[index].characters) else { continue }
            if patterns[index].matches(name, of: document) { return rows[index] }
        }
        return nil
    }

    func hasRow(for name: [UInt8], of document: [UInt8]? = nil) -> Bool {
        first(for: name, of: document) != nil
    }
}

extension NameTable<NamePattern> {
    init(_ patterns: [String]) { self.init(patterns.map(NamePattern.init)) { $0 } }
}

/// The set of the ASCII characters of a name.
private struct ASCIISet: Sendable {
    private var low: UInt64 = 0
    private var high: UInt64 = 0

    init(_ bytes: [UInt8]) {
        for byte in bytes {
            let bit = 1 as UInt64 &<< UInt64(byte)
            low |= byte < 64 ? bit : 0
            high |= byte & 0xC0 == 64 ? bit : 0
        }
    }

    func isSuperset(of other: ASCIISet) -> Bool {
        low & other.low == other.low && high & other.high == other.high
    }
}
