// SPDX-License-Identifier: Apache-2.0

extension [UInt8] {
    /// The bytes as text for people. In place of a byte that is not valid UTF-8, the text has its number, such as `\xff`.
    package var printable: String {
        if let text = String(validating: self, as: UTF8.self) { return text.printable }
        var (text, rest, parser) = ("", self[...], Unicode.UTF8.ForwardParser())
        while true {
            var iterator = rest.makeIterator()
            switch parser.parseScalar(from: &iterator) {
            case .valid(let encoded):
                text += String(Unicode.UTF8.decode(encoded)).printable
                rest = rest.dropFirst(encoded.count)
            case .error(let length):
                for byte in rest.prefix(length) { text += "\\x" + byte.hexadecimal }
                rest = rest.dropFirst(length)
            case .emptyInput: return text
            }
        }
    }
}

extension String {
    /// The text without characters that control a terminal or mislead a reader.
    ///
    /// Each control character, line separator, and character that changes the direction of the text is replaced by its number.
    package var printable: String {
        guard unicodeScalars.contains(where: \.isUnprintable) else { return self }
        return unicodeScalars.reduce(into: "") { text, scalar in
            if scalar.isUnprintable { text += scalar.escaped } else { text.unicodeScalars.append(scalar) }
        }
    }
}

extension Unicode.Scalar {
    fileprivate var isUnprintable: Bool {
        // The remaining characters to replace are beyond ASCII. ASCII is tested before them, because a lookup of a character's
        // properties takes longer.
        if isASCII { return value < 0x20 || value == 0x7f }
        switch properties.generalCategory {
        case .control, .lineSeparator, .paragraphSeparator: return true
        default: return properties.isBidiControl
        }
    }

    fileprivate var escaped: String {
        isASCII ? "\\x" + UInt8(value).hexadecimal : "\\u{" + String(value, radix: 16) + "}"
    }
}

extension UInt8 {
    fileprivate var hexadecimal: String { (self < 16 ? "0" : "") + String(self, radix: 16) }
}
