// SPDX-License-Identifier: Apache-2.0
import FoundationEssentials

/// Encodes JSON on one line with sorted keys, and checks JSON before it is decoded.
package enum JSONCodec {
    /// Throws for JSON that the decoder cannot handle well.
    ///
    /// - Deeply nested JSON, because the decoder is recursive and could use up the stack.
    /// - Text that is not UTF-8, and text with zero bytes, which the decoder would read as UTF-16.
    /// - Text with many combining marks, which takes very long to compare.
    static func check(_ bytes: [UInt8]) throws(ProtocolFailure) {
        guard let text = String(validating: bytes, as: UTF8.self) else { throw .notJSON() }
        var (depth, isText, isEscaped, isPlain) = (0, false, false, true)
        for byte in bytes {
            if byte >= 0x80 || byte == UInt8(ascii: "\\") { isPlain = false }
            switch byte {
            case 0: throw .notJSON()
            case _ where isEscaped: isEscaped = false
            case UInt8(ascii: "\\") where isText: isEscaped = true
            case UInt8(ascii: "\""): isText.toggle()
            case _ where isText: break
            case UInt8(ascii: "["), UInt8(ascii: "{"):
                depth += 1
                if depth > ProtocolLimits.nesting { throw .nestedTooDeeply() }
            case UInt8(ascii: "]"), UInt8(ascii: "}"): depth -= 1
            default: break
            }
        }
        if !isPlain { try checkMarks(in: text) }
    }

    /// Throws for a client's message that takes long to decode: a message with many values, or with long names of members.
    ///
    /// One thread decodes the messages of all clients, so such a message would delay the other clients. Long texts are allowed,
    /// because they are decoded fast.
    static func checkShape(_ bytes: [UInt8]) throws(ProtocolFailure) {
        var (values, textBytes, isText, isEscaped) = (1, 0, false, false)
        for byte in bytes {
            if isText {
                textBytes += 1
                switch byte {
                case _ where isEscaped: isEscaped = false
                case UInt8(ascii: "\\"): isEscaped = true
                case UInt8(ascii: "\""): isText = false
                default: break
                }
                continue
            }
            switch byte {
            case UInt8(ascii: "\""): (isText, textBytes) = (true, 0)
            case UInt8(ascii: ":") where textBytes > ProtocolLimits.nameBytes + 1: throw .nameTooLong()
            case UInt8(ascii: ","), UInt8(ascii: "["), UInt8(ascii: "{"):
                values += 1
                if values > ProtocolLimits.values { throw .tooManyValues() }
            default: break
            }
        }
    }

    private static func checkMarks(in text: String) throws(ProtocolFailure) {
        var marks = MarkCounter()
        for scalar in text.unicodeScalars {
            marks.take(scalar)
            if marks.inARow > ProtocolLimits.combiningMarks { throw .tooManyMarks() }
        }
    }

    package static func encode(_ value: some Encodable) throws -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return Array(try encoder.encode(value))
    }
}

/// Counts combining marks that follow each other, as characters or as escapes such as `\u0301`.
///
/// Swift sorts the marks after each letter before it compares or hashes a string. The time for this grows with the square of
/// their number, so a megabyte of marks would take minutes. The count comes before the decoder, because the decoder hashes the
/// names of members.
struct MarkCounter {
    private(set) var inARow = 0
    private var isEscaped = false
    /// The number of digits that are still missing in an escape, and the value of its digits so far.
    private var (digits, unit): (Int, UInt32) = (0, 0)
    /// The first half of a surrogate pair, if the last escape was such a half; nil otherwise.
    private var firstHalf: UInt32?

    mutating func take(_ scalar: Unicode.Scalar) {
        if digits > 0, let digit = Character(scalar).hexDigitValue {
            (digits, unit) = (digits - 1, unit << 4 | UInt32(digit))
            if digits == 0 { takeUnit() }
        } else if isEscaped {
            isEscaped = false
            (digits, unit) = (scalar == "u" ? 4 : 0, 0)
            if scalar != "u" { inARow = 0 }
        } else if scalar == "\\" {
            (isEscaped, digits) = (true, 0)
        } else {
            (digits, firstHalf) = (0, nil)
            count(scalar)
        }
    }

    private mutating func takeUnit() {
        let first = firstHalf
        firstHalf = (0xD800...0xDBFF).contains(unit) ? unit : nil
        if let first, (0xDC00...0xDFFF).contains(unit) {
            Unicode.Scalar(0x10000 + ((first - 0xD800) << 10) + (unit - 0xDC00)).map { count($0) }
        } else if let scalar = Unicode.Scalar(unit) {
            count(scalar)
        }
    }

    private mutating func count(_ scalar: Unicode.Scalar) {
        // Code points below 0x300 are not combining marks. This comparison comes first, because a lookup of a character's
        // properties takes longer.
        let isMark = scalar.value >= 0x300 && scalar.properties.canonicalCombiningClass != .notReordered
        inARow = isMark ? inARow + 1 : 0
    }
}
