// SPDX-License-Identifier: Apache-2.0

/// Changes to one file, each of which may lie within another.
///
/// Offsets are those of the original text, in UTF-8.
struct SourceEdits {
    private struct Edit {
        enum Place: Int { case after, before, instead }

        let offset: Int
        let length: Int
        let place: Place
        let text: String
        /// The length of the whole change: a longer change lies outside.
        let span: Int
        let order: Int
    }

    private var edits: [Edit] = []

    /// Puts text before and after a range.
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

    /// At one offset: ends come from the inside out, then beginnings from the outside in.
    private static func isBefore(_ one: Edit, _ other: Edit) -> Bool {
        if one.offset != other.offset { return one.offset < other.offset }
        if one.place != other.place { return one.place.rawValue < other.place.rawValue }
        let isEnd = one.place == .after
        if one.span != other.span { return (one.span < other.span) == isEnd }
        return (one.order < other.order) != isEnd
    }
}
