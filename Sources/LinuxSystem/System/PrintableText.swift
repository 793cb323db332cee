// SPDX-License-Identifier: Apache-2.0

extension [UInt8] {
    /// For people, as a text is; a byte that is not of UTF-8 is shown by its number: `\xff`.
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
    /// For a terminal, which would obey control characters in the name of a file or a program, and for the eye: what ends a
    /// line, or turns the direction of the text around it, is shown by its number.
    package var printable: String {
        guard unicodeScalars.contains(where: \.isUnprintable) else { return self }
        return unicodeScalars.reduce(into: "") { text, scalar in
            if scalar.isUnprintable { text += scalar.escaped } else { text.unicodeScalars.append(scalar) }
        }
    }
}

extension Unicode.Scalar {
    fileprivate var isUnprintable: Bool {
        // All others that are obeyed are beyond ASCII, and asking for properties takes longer.
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
