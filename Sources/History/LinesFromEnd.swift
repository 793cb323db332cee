// SPDX-License-Identifier: Apache-2.0

/// The lines of a file of the log, from the last to the first. Lines that no reader asks for are not looked at.
struct LinesFromEnd {
    private static let newline = UInt8(ascii: "\n")
    /// A search by halves ends when so few bytes are left.
    private static let leastStep = 1 << 14

    private let text: [UInt8]
    /// The lines before this offset have not been returned yet.
    private var end: Int

    init(_ text: [UInt8]) {
        self.text = text
        end = text.count
    }

    /// Leaves out lines with the number `number` or a larger one, as far as a search by halves finds them. Some of them can remain.
    mutating func leaveOut(from number: UInt64) {
        var low = 0
        while end - low > Self.leastStep {
            let middle = low + (end - low) / 2
            guard let (start, found) = firstNumber(from: middle), start < end else { return }
            if found < number { low = start } else { end = start }
        }
    }

    /// Finds the first line that begins after an offset and has a number.
    private func firstNumber(from offset: Int) -> (start: Int, number: UInt64)? {
        var position = offset
        while let newline = text[position..<end].firstIndex(of: Self.newline), newline + 1 < end {
            position = newline + 1
            let line = text[position..<end].prefix { $0 != Self.newline }
            if let number = HistoryLine.number(of: line) { return (position, number) }
        }
        return nil
    }

    /// Returns the next line towards the beginning, without its newline; nil after the first line. Skips empty lines.
    mutating func next() -> ArraySlice<UInt8>? {
        while end > 0 {
            let start = (text[..<end].lastIndex(of: Self.newline) ?? -1) + 1
            let line = text[start..<end]
            end = max(start - 1, 0)
            if !line.isEmpty { return line }
        }
        return nil
    }
}
