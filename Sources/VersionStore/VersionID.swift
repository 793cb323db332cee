// SPDX-License-Identifier: Apache-2.0

/// The ID of a version: sixteen hexadecimal digits; later IDs sort later.
///
/// Twelve digits are milliseconds since 1970, four count within one. The ID is the file's name in the store, so only these
/// sixteen characters are accepted.
package struct VersionID: Hashable, Comparable, Sendable, CustomStringConvertible {
    private let rawValue: UInt64
    package static let length = 16

    init(rawValue: UInt64) { self.rawValue = rawValue }

    /// Reads user input or a field of the log; nil for everything that is not exactly an ID.
    package init?(_ text: String) {
        let digits = Array("0123456789abcdef".utf8)
        guard text.utf8.count == Self.length, text.utf8.allSatisfy(digits.contains),
            let value = UInt64(text, radix: 16)
        else { return nil }
        rawValue = value
    }

    package static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }

    package var description: String {
        let digits = String(rawValue, radix: 16)
        return String(repeating: "0", count: Self.length - digits.count) + digits
    }

    /// The time it was made, in nanoseconds since 1970, to the millisecond.
    var nanoseconds: Int64 {
        // Bounded, since any file may have a name of this form.
        Int64(min(rawValue >> 16, UInt64(Int64.max) / 1_000_000)) * 1_000_000
    }

    /// The first ID of this moment, or the ID after `last` if that is later. IDs stay unique and in order when the clock stops
    /// or is set back.
    static func next(after last: VersionID?, at nanoseconds: Int64) -> VersionID {
        let now = (UInt64(max(nanoseconds, 0)) / 1_000_000) << 16
        guard let last, last.rawValue >= now else { return VersionID(rawValue: now) }
        return VersionID(rawValue: last.rawValue &+ 1)
    }
}
