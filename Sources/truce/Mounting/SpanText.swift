// SPDX-License-Identifier: Apache-2.0
package import Coordination

extension TimeSpan {
    /// The longest time an option may say; more is a slip of the finger.
    private static let longest: UInt64 = 24 * 3600 * 1000

    /// The same of how long something is kept: ten years.
    private static let longestAge: UInt64 = 3650 * 24 * 3600 * 1000

    /// `15`, `15s`, `250ms` or `2m`; nil for everything else.
    package init?(parsing text: String) {
        self.init(text, ["": 1000, "s": 1000, "ms": 1, "m": 60_000], upTo: Self.longest)
    }

    /// The same, and `12h` or `30d`.
    package init?(parsingLong text: String) {
        let factors: [String: UInt64] = [
            "": 1000, "s": 1000, "ms": 1, "m": 60_000, "h": 3_600_000, "d": 86_400_000,
        ]
        self.init(text, factors, upTo: Self.longestAge)
    }

    private init?(_ text: String, _ factors: [String: UInt64], upTo longest: UInt64) {
        let digits = text.utf8.prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        guard let factor = factors[String(text.dropFirst(digits.count))],
            let number = UInt64(String(text.prefix(digits.count))), number <= longest / factor
        else { return nil }
        self = .milliseconds(number * factor)
    }
}
