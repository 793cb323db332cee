// SPDX-License-Identifier: Apache-2.0

/// Rows that are found by the shape of a name; the first that fits counts.
///
/// Each new file is looked for in a hundred of them, so most are refused by what is kept beside the rows: numbers alone,
/// which are compared without touching a pattern.
struct NameTable<Row: Sendable>: Sendable {
    private struct Ends: Sendable {
        let leastLength: Int
        /// What the name has to begin and to end with; nil where anything will do.
        let first, last: UInt8?

        func mayFit(_ count: Int, from first: UInt8, to last: UInt8) -> Bool {
            count >= leastLength && (self.first ?? first) == first && (self.last ?? last) == last
        }
    }

    private let rows: [Row]
    private let patterns: [NamePattern]
    private let ends: [Ends]

    init(_ rows: [Row], by pattern: (Row) -> NamePattern) {
        self.rows = rows
        patterns = rows.map(pattern)
        ends = patterns.map {
            Ends(leastLength: $0.leastLength, first: $0.prefix.first, last: $0.suffix.last)
        }
    }

    /// `document`, if given, is the only one that a name may belong to.
    func first(for name: [UInt8], of document: [UInt8]? = nil) -> Row? {
        guard let first = name.first, let last = name.last else { return nil }
        for index in ends.indices where ends[index].mayFit(name.count, from: first, to: last) {
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
