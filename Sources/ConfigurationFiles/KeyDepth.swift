// SPDX-License-Identifier: Apache-2.0

/// Finds keys with very many parts in a TOML text.
///
/// The TOML parser makes a table for each part of a key such as `a.b.c`, and frees nested tables by recursion. So a key with tens
/// of thousands of parts would overflow the stack of the daemon. The parser itself bounds only nested values.
enum KeyDepth {
    /// The most parts of a key.
    static let most = 16

    /// Returns the line of the first key with more than ``most`` parts; nil if there is none.
    static func excess(in bytes: [UInt8]) -> Int? {
        var (index, line, dots) = (0, 1, 0)
        while index < bytes.count {
            switch bytes[index] {
            case UInt8(ascii: "#"):
                index = bytes[index...].firstIndex(of: newline) ?? bytes.count
                continue
            case UInt8(ascii: "\""), UInt8(ascii: "'"):
                let end = endOfString(in: bytes, from: index)
                line += bytes[index..<end].count { $0 == newline }
                index = end
                continue
            case UInt8(ascii: "."):
                dots += 1
                if dots >= most { return line }
            case newline: (line, dots) = (line + 1, 0)
            case UInt8(ascii: "="), UInt8(ascii: ","), UInt8(ascii: "["), UInt8(ascii: "]"),
                UInt8(ascii: "{"), UInt8(ascii: "}"):
                dots = 0
            default: break
            }
            index += 1
        }
        return nil
    }

    private static let newline = UInt8(ascii: "\n")

    /// Returns the index after a string that begins at `start`. A string of one line ends before its newline at the latest.
    private static func endOfString(in bytes: [UInt8], from start: Int) -> Int {
        let quote = bytes[start]
        let hasEscapes = quote == UInt8(ascii: "\"")
        let isLong = bytes[start...].prefix(3).elementsEqual([quote, quote, quote])
        var index = start + (isLong ? 3 : 1)
        while index < bytes.count {
            if hasEscapes, bytes[index] == UInt8(ascii: "\\") {
                index += 2
            } else if !isLong, bytes[index] == quote {
                return index + 1
            } else if !isLong, bytes[index] == newline {
                return index
            } else if isLong, bytes[index...].prefix(3).elementsEqual([quote, quote, quote]) {
                // The last two characters of the string can be quotes, too.
                return index + 3 + bytes[(index + 3)...].prefix(2).prefix { $0 == quote }.count
            } else {
                index += 1
            }
        }
        return bytes.count
    }
}
