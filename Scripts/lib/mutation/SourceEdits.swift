// SPDX-License-Identifier: Apache-2.0

/// Insertions into one file. The range of one insertion can lie inside the range of another.
///
/// Offsets are counted in UTF-8 bytes of the original text.
struct SourceEdits {
    private struct Edit {
        enum Place: Int { case after, before, instead }

        let offset: Int
        let length: Int
        let place: Place
        let text: String
        /// The length of the range of this change. If two changes have the same offset, the change with the longer range lies
        /// outside.
        let span: Int
        let order: Int
    }

    private var edits: [Edit] = []

    /// Inserts one text before a range and another text after the range.
    mutating func wrap(_ range: Range<Int>, _ before: String, _ after: String) {
        add(range.lowerBound, 0, .before, before, span: range.count)
        add(range.upperBound, 0, .after, after, span: range.count)
    }

    mutating func replace(_ range: Range<Int>, with text: String) {
        add(range.lowerBound, range.count, .instead, text, span: range.count)
    }

    private mutating func add(_ offset: Int, _ length: Int, _ place: Edit.Place, _ text: String, span: Int) {
        edits.append(
            Edit(offset: offset, length: length, place: place, text: text, span: span, order: edits.count))
    }

    func applied(to source: [UInt8]) -> String {
        var result: [UInt8] = []
        var position = 0
        for edit in edits.sorted(by: Self.isBefore) {
            result += source[position..<edit.offset]
            result += edit.text.utf8
            position = edit.offset + edit.length
        }
        return String(decoding: result + source[position...], as: UTF8.self)
    }

    /// Whether a change comes before another change. At one offset, the ends of ranges come before the beginnings. Of several
    /// ends, the innermost comes first; of several beginnings, the outermost.
    private static func isBefore(_ one: Edit, _ other: Edit) -> Bool {
        if one.offset != other.offset { return one.offset < other.offset }
        if one.place != other.place { return one.place.rawValue < other.place.rawValue }
        let isEnd = one.place == .after
        if one.span != other.span { return (one.span < other.span) == isEnd }
        return (one.order < other.order) != isEnd
    }
}
