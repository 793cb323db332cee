// SPDX-License-Identifier: Apache-2.0

/// The lines of a text. Each line contains its line end, so that the lines together are exactly the text.
package struct TextLines: Sendable {
    package let bytes: [UInt8]
    /// The offset of the first byte of each line, and then the length of the text.
    private let starts: [Int]

    private static let lineFeed = UInt8(ascii: "\n")

    package init(_ bytes: [UInt8]) {
        self.bytes = bytes
        var starts = [0]
        for (offset, byte) in bytes.enumerated() where byte == Self.lineFeed { starts.append(offset + 1) }
        if starts.last != bytes.count { starts.append(bytes.count) }
        self.starts = starts
    }

    package var count: Int { starts.count - 1 }

    /// The bytes of a line, with its line end.
    package subscript(line: Int) -> ArraySlice<UInt8> { bytes[starts[line]..<starts[line + 1]] }

    /// The bytes of consecutive lines.
    package subscript(lines: Range<Int>) -> ArraySlice<UInt8> {
        bytes[starts[lines.lowerBound]..<starts[lines.upperBound]]
    }

    /// The bytes of a line without its line feed. Only the last line of a text can have none.
    package func withoutLineFeed(_ line: Int) -> ArraySlice<UInt8> {
        let text = self[line]
        return text.last == Self.lineFeed ? text.dropLast() : text
    }
}

/// Gives a number to each different line of several texts, so that lines are compared as numbers.
struct LineNumbers {
    private var numbers: [ArraySlice<UInt8>: Int32] = [:]

    mutating func number(_ text: TextLines) -> [Int32] {
        (0..<text.count).map { line in
            if let number = numbers[text[line]] { return number }
            let number = Int32(numbers.count)
            numbers[text[line]] = number
            return number
        }
    }
}
