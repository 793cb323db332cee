// SPDX-License-Identifier: Apache-2.0

extension [UInt8] {
    /// For people: what is not UTF-8 is shown by replacement characters.
    package var shown: String { String(decoding: self, as: UTF8.self).shown }
}

extension String {
    /// For a terminal, which would obey control characters in the name of a file or a program.
    package var shown: String {
        guard unicodeScalars.contains(where: { $0.properties.generalCategory == .control }) else {
            return self
        }
        return unicodeScalars.reduce(into: "") { text, scalar in
            if scalar.properties.generalCategory == .control {
                text += "\\x" + (scalar.value < 16 ? "0" : "") + String(scalar.value, radix: 16)
            } else {
                text.unicodeScalars.append(scalar)
            }
        }
    }
}
