// SPDX-License-Identifier: Apache-2.0

extension TimeSpan {
    /// The longest time that an option accepts, in milliseconds. A longer time is probably a typing error.
    private static let longest: UInt64 = 24 * 3600 * 1000

    /// The longest time for which versions can be preserved, in milliseconds: ten years.
    private static let longestAge: UInt64 = 3650 * 24 * 3600 * 1000

    /// Parses a time such as `15`, `15s`, `250ms` or `2m`; returns nil for any other text.
    package init?(parsing text: String) {
        self.init(text, ["": 1000, "s": 1000, "ms": 1, "m": 60_000], upTo: Self.longest)
    }

    /// Parses a time. Accepts all times that ``init(parsing:)`` accepts, and hours and days such as `12h` or `30d`.
    package init?(parsingLong text: String) {
        let factors: [String: UInt64] = [
            "": 1000, "s": 1000, "ms": 1, "m": 60_000, "h": 3_600_000, "d": 86_400_000,
        ]
        self.init(text, factors, upTo: Self.longestAge)
    }

    /// The time with the largest unit in which it is a whole number, as ``init(parsingLong:)`` reads it.
    package var text: String {
        let units: [(String, UInt64)] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)]
        let fitting = units.first { milliseconds >= $0.1 && milliseconds % $0.1 == 0 }
        return fitting.map { "\(milliseconds / $0.1)\($0.0)" } ?? "\(milliseconds)ms"
    }

    private init?(_ text: String, _ factors: [String: UInt64], upTo longest: UInt64) {
        let digits = text.utf8.prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        guard let factor = factors[String(text.dropFirst(digits.count))],
            let number = UInt64(String(text.prefix(digits.count))), number <= longest / factor
        else { return nil }
        self = .milliseconds(number * factor)
    }
}
