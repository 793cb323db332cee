// SPDX-License-Identifier: Apache-2.0

/// Reads JSON from bytes, value by value (D273).
///
/// A store reads its whole log when it is opened. Foundation's decoder takes some 100 µs for a line, so 100,000 lines would
/// delay the mount by many seconds.
///
/// Each function reads the value at the present position, and leaves the position after the value.
struct JSONReader {
    /// The bytes are not JSON, or not of the wanted form.
    struct Fault: Error {}

    /// The most levels of nested arrays and objects. The log has three.
    private static let mostLevels = 16

    private let bytes: ArraySlice<UInt8>
    private var position: Int
    private var level = 0

    init(_ bytes: ArraySlice<UInt8>) {
        self.bytes = bytes
        position = bytes.startIndex
    }

    /// Reads an object. Calls `member` with the name of each member; `member` must read the value.
    mutating func object(_ member: (inout JSONReader, String) throws(Fault) -> Void) throws(Fault) {
        try enter(UInt8(ascii: "{"))
        defer { level -= 1 }
        if takes(UInt8(ascii: "}")) { return }
        repeat {
            let name = try text()
            guard takes(UInt8(ascii: ":")) else { throw Fault() }
            try member(&self, name)
        } while takes(UInt8(ascii: ","))
        guard takes(UInt8(ascii: "}")) else { throw Fault() }
    }

    /// Reads an array. Calls `element` before each element; `element` must read the element.
    mutating func array(_ element: (inout JSONReader) throws(Fault) -> Void) throws(Fault) {
        try enter(UInt8(ascii: "["))
        defer { level -= 1 }
        if takes(UInt8(ascii: "]")) { return }
        repeat { try element(&self) } while takes(UInt8(ascii: ","))
        guard takes(UInt8(ascii: "]")) else { throw Fault() }
    }

    /// Reads `null` if it comes next, and returns whether it does.
    mutating func takesNull() -> Bool {
        skipBlanks()
        return takesWord("null")
    }

    mutating func text() throws(Fault) -> String {
        guard let text = String(validating: try textBytes(), as: UTF8.self) else { throw Fault() }
        return text
    }

    /// Reads a whole number. A number with a fraction or an exponent is a fault.
    mutating func number<Number: FixedWidthInteger>() throws(Fault) -> Number {
        skipBlanks()
        let isNegative = takesWord("-")
        let start = position
        var value: Number = 0
        while let digit = next, digit >= 0x30, digit <= 0x39 {
            let (tens, isTooLarge) = value.multipliedReportingOverflow(by: 10)
            let unit = Number(truncatingIfNeeded: digit &- 0x30)
            let (sum, isBeyond) =
                isNegative ? tens.subtractingReportingOverflow(unit) : tens.addingReportingOverflow(unit)
            guard !isTooLarge, !isBeyond else { throw Fault() }
            value = sum
            position += 1
        }
        let hasNeedlessZero = position > start + 1 && bytes[start] == 0x30
        guard position > start, !hasNeedlessZero, !hasFraction else { throw Fault() }
        return value
    }

    /// Reads bytes that are written as text in base64.
    mutating func base64() throws(Fault) -> [UInt8] {
        let text = try textBytes()
        guard text.count % 4 == 0 else { throw Fault() }
        let padding = text.suffix(2).count { $0 == UInt8(ascii: "=") }
        guard text.dropLast(padding).allSatisfy({ Self.sextet($0) != nil }) else { throw Fault() }
        var (found, bits, count): ([UInt8], UInt32, Int) = ([], 0, 0)
        found.reserveCapacity(text.count / 4 * 3)
        for byte in text.dropLast(padding) {
            bits = bits << 6 | (Self.sextet(byte) ?? 0)
            count += 6
            guard count >= 8 else { continue }
            count -= 8
            found.append(UInt8(truncatingIfNeeded: bits >> UInt32(count)))
        }
        return found
    }

    /// Reads a value of any kind, and ignores it.
    mutating func skip() throws(Fault) {
        skipBlanks()
        switch next {
        case UInt8(ascii: "{"): try object { (reader, _) throws(Fault) in try reader.skip() }
        case UInt8(ascii: "["): try array { (reader) throws(Fault) in try reader.skip() }
        case UInt8(ascii: "\""): _ = try text()
        case .some(let byte) where byte == UInt8(ascii: "-") || (0x30...0x39).contains(byte):
            try skipNumber()
        default: guard takesWord("null") || takesWord("true") || takesWord("false") else { throw Fault() }
        }
    }

    /// Throws if anything but white space is left.
    mutating func finish() throws(Fault) {
        skipBlanks()
        guard next == nil else { throw Fault() }
    }
}

extension JSONReader {
    private var next: UInt8? { position < bytes.endIndex ? bytes[position] : nil }

    private mutating func skipBlanks() {
        while let byte = next, byte == 0x20 || byte == 0x09 || byte == 0x0D || byte == 0x0A { position += 1 }
    }

    /// Reads the byte if it is the next one after white space.
    private mutating func takes(_ byte: UInt8) -> Bool {
        skipBlanks()
        guard next == byte else { return false }
        position += 1
        return true
    }

    private mutating func takesWord(_ word: StaticString) -> Bool {
        let end = position + word.utf8CodeUnitCount
        guard end <= bytes.endIndex else { return false }
        let isNext = word.withUTF8Buffer { bytes[position..<end].elementsEqual($0) }
        if isNext { position = end }
        return isNext
    }

    private mutating func enter(_ bracket: UInt8) throws(Fault) {
        guard takes(bracket), level < Self.mostLevels else { throw Fault() }
        level += 1
    }

    private mutating func skipNumber() throws(Fault) {
        _ = takesWord("-")
        let start = position
        try skipDigits()
        guard bytes[start] != 0x30 || position == start + 1 else { throw Fault() }
        if takesWord(".") { try skipDigits() }
        guard takesWord("e") || takesWord("E") else { return }
        _ = takesWord("+") || takesWord("-")
        try skipDigits()
    }

    private mutating func skipDigits() throws(Fault) {
        let start = position
        while let byte = next, (0x30...0x39).contains(byte) { position += 1 }
        guard position > start else { throw Fault() }
    }

    /// Whether the number before the present position goes on with a fraction or an exponent.
    private var hasFraction: Bool {
        switch next {
        case UInt8(ascii: "."), UInt8(ascii: "e"), UInt8(ascii: "E"): true
        default: false
        }
    }

    private static func sextet(_ byte: UInt8) -> UInt32? {
        switch byte {
        case 0x41...0x5A: UInt32(byte) - 0x41
        case 0x61...0x7A: UInt32(byte) - 0x61 + 26
        case 0x30...0x39: UInt32(byte) - 0x30 + 52
        case UInt8(ascii: "+"): 62
        case UInt8(ascii: "/"): 63
        default: nil
        }
    }

    /// Reads a text in quotation marks, and returns its bytes without escapes.
    private mutating func textBytes() throws(Fault) -> ArraySlice<UInt8> {
        guard takes(UInt8(ascii: "\"")) else { throw Fault() }
        let start = position
        while let byte = next {
            if byte == UInt8(ascii: "\"") {
                position += 1
                return bytes[start..<position - 1]
            }
            if byte == UInt8(ascii: "\\") { return try escapedText(from: start) }
            // A control character must be escaped.
            guard byte >= 0x20 else { throw Fault() }
            position += 1
        }
        throw Fault()
    }

    /// Reads the rest of a text that begins at `start`. The present position is that of its first escape.
    private mutating func escapedText(from start: Int) throws(Fault) -> ArraySlice<UInt8> {
        var found = Array(bytes[start..<position])
        while let byte = next {
            position += 1
            switch byte {
            case UInt8(ascii: "\""): return found[...]
            case UInt8(ascii: "\\"): try found.append(contentsOf: escape())
            default:
                guard byte >= 0x20 else { throw Fault() }
                found.append(byte)
            }
        }
        throw Fault()
    }

    /// Reads an escape after its backslash.
    private mutating func escape() throws(Fault) -> [UInt8] {
        guard let letter = next else { throw Fault() }
        position += 1
        switch letter {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return [letter]
        case UInt8(ascii: "b"): return [0x08]
        case UInt8(ascii: "f"): return [0x0C]
        case UInt8(ascii: "n"): return [0x0A]
        case UInt8(ascii: "r"): return [0x0D]
        case UInt8(ascii: "t"): return [0x09]
        case UInt8(ascii: "u"): return try escapedScalar()
        default: throw Fault()
        }
    }

    /// Reads the digits of an escape such as `\u00e9`. A character beyond 16 bits is two such escapes.
    private mutating func escapedScalar() throws(Fault) -> [UInt8] {
        var value = try fourDigits()
        if (0xD800...0xDBFF).contains(value) {
            guard takesWord("\\u") else { throw Fault() }
            let second = try fourDigits()
            guard (0xDC00...0xDFFF).contains(second) else { throw Fault() }
            value = 0x10000 + (value - 0xD800) << 10 + (second - 0xDC00)
        }
        guard let scalar = Unicode.Scalar(value) else { throw Fault() }
        return Array(String(scalar).utf8)
    }

    private mutating func fourDigits() throws(Fault) -> UInt32 {
        guard position + 4 <= bytes.endIndex else { throw Fault() }
        var value: UInt32 = 0
        for byte in bytes[position..<position + 4] {
            switch byte {
            case 0x30...0x39: value = value << 4 | UInt32(byte - 0x30)
            case 0x41...0x46: value = value << 4 | UInt32(byte - 0x41 + 10)
            case 0x61...0x66: value = value << 4 | UInt32(byte - 0x61 + 10)
            default: throw Fault()
            }
        }
        position += 4
        return value
    }
}
