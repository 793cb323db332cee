// SPDX-License-Identifier: Apache-2.0
package import Coordination

extension Span {
    /// The longest time an option may say; more is a slip of the finger.
    private static let longest: UInt64 = 24 * 3600 * 1000

    /// `15`, `15s`, `250ms` or `2m`; nil for everything else.
    package init?(parsing text: String) {
        let digits = text.utf8.prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        let factors: [String: UInt64] = ["": 1000, "s": 1000, "ms": 1, "m": 60_000]
        guard let factor = factors[String(text.dropFirst(digits.count))],
            let number = UInt64(String(text.prefix(digits.count))), number <= Self.longest / factor
        else { return nil }
        self = .milliseconds(number * factor)
    }
}
