// SPDX-License-Identifier: Apache-2.0

/// The ID of a version: sixteen hexadecimal digits. A later version has a greater ID.
///
/// The first twelve digits are the milliseconds since 1970. The last four count the versions of one millisecond. The ID is also
/// the name of the version's file in the store, so no other form is accepted.
package struct VersionID: Hashable, Comparable, Sendable, CustomStringConvertible {
    private let rawValue: UInt64
    package static let length = 16

    init(rawValue: UInt64) { self.rawValue = rawValue }

    /// The value of the sixteen digits.
    package var number: UInt64 { rawValue }

    /// Makes an ID from text of a user or of the log. Returns nil if the text is not exactly sixteen lower-case hexadecimal
    /// digits.
    package init?(_ text: String) {
        guard text.utf8.count == Self.length else { return nil }
        var value: UInt64 = 0
        for digit in text.utf8 {
            switch digit {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): value = value << 4 | UInt64(digit - UInt8(ascii: "0"))
            case UInt8(ascii: "a")...UInt8(ascii: "f"):
                value = value << 4 | UInt64(digit - UInt8(ascii: "a") + 10)
            default: return nil
            }
        }
        rawValue = value
    }

    package static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }

    package var description: String {
        let digits = String(rawValue, radix: 16)
        return String(repeating: "0", count: Self.length - digits.count) + digits
    }

    /// The time at which the ID was made, in nanoseconds since 1970, with the precision of a millisecond.
    var nanoseconds: Int64 {
        // The value is bounded, because any file in the store can have a name of this form. The time in such a name can be too
        // large for `Int64`.
        Int64(min(rawValue >> 16, UInt64(Int64.max) / 1_000_000)) * 1_000_000
    }

    /// Returns the first ID of the given time. If that ID is not greater than `last`, returns the ID after `last`. So IDs stay
    /// unique and in order even if the clock is set back.
    static func next(after last: VersionID?, at nanoseconds: Int64) -> VersionID {
        let now = (UInt64(max(nanoseconds, 0)) / 1_000_000) << 16
        guard let last, last.rawValue >= now else { return VersionID(rawValue: now) }
        return VersionID(rawValue: last.rawValue &+ 1)
    }
}
