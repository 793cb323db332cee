// SPDX-License-Identifier: Apache-2.0

/// What two texts must have in common so that a merge of them is safe: a form of line ends.
package enum TextForm: Hashable, Sendable {
    /// The text has no line end.
    case oneLine
    /// Each line ends with a line feed.
    case lineFeeds
    /// Each line ends with a carriage return and a line feed.
    case carriageReturns

    /// The form of a text. Returns nil if the contents are no UTF-8, contain a zero byte or have different line ends.
    package init?(_ contents: [UInt8]) {
        guard !contents.contains(0), String(validating: contents, as: UTF8.self) != nil else { return nil }
        let feed = UInt8(ascii: "\n")
        let (feeds, pairs) = contents.indices.reduce((0, 0)) { count, index in
            guard contents[index] == feed else { return count }
            let isPair = index > 0 && contents[index - 1] == UInt8(ascii: "\r")
            return (count.0 + 1, count.1 + (isPair ? 1 : 0))
        }
        switch (feeds, pairs) {
        case (0, _): self = .oneLine
        case (_, 0): self = .lineFeeds
        case _ where feeds == pairs: self = .carriageReturns
        default: return nil
        }
    }

    /// Whether all contents are texts with the same line ends.
    package static func areAlike(_ contents: [[UInt8]]) -> Bool {
        let forms = contents.map { TextForm($0) }
        let ends = Set(forms.filter { $0 != .oneLine })
        return !forms.contains(nil) && ends.count <= 1
    }
}
