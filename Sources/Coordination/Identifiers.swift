// SPDX-License-Identifier: Apache-2.0

/// The hash function for the numbers that Truce itself gives to claims and items.
package enum Numbering {
    /// The hash of a number, without the random seed of dictionaries: only Truce chooses these numbers.
    ///
    /// The hashes of 32 consecutive numbers are neighbors, so claims made one after another are near each other in
    /// memory. This makes the cost of a claim nearly independent of the number of claims. The hashes of different
    /// groups of 32 are spread, because a removal is slow in a part of a dictionary without free entries.
    @inlinable
    package static func hash(_ number: UInt64) -> Int {
        let spread = (number >> 5) &* 0x9E37_79B9_7F4A_7C15
        return Int(truncatingIfNeeded: (spread >> 29) & ~31 | number & 31)
    }
}

/// The number of a document or directory in the arbiter.
///
/// A document has the same number after a safe save: the new file takes over the number of the document, and the
/// replaced file gets a new number. Truce never uses a number again in the same mount.
public struct ItemID: Hashable, Comparable, Sendable, CustomStringConvertible {
    public let rawValue: UInt64
    public init(_ rawValue: UInt64) { self.rawValue = rawValue }
    public static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }
    public var description: String { "@\(rawValue)" }
    public func _rawHashValue(seed: Int) -> Int { Numbering.hash(rawValue) }
}

/// The number of a claim, from its request to its end.
///
/// A later claim has a larger number.
public struct ClaimID: Hashable, Comparable, Sendable, CustomStringConvertible {
    public let rawValue: UInt64
    public init(_ rawValue: UInt64) { self.rawValue = rawValue }
    public static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }
    public var description: String { "#\(rawValue)" }

    public func _rawHashValue(seed: Int) -> Int { Numbering.hash(rawValue) }
}

/// A moment of the monotonic clock, in nanoseconds. This module never reads the clock: each caller gives the moment.
public struct Instant: Hashable, Comparable, Sendable, CustomStringConvertible {
    public let nanoseconds: UInt64
    public init(nanoseconds: UInt64) { self.nanoseconds = nanoseconds }

    public static func < (one: Self, other: Self) -> Bool { one.nanoseconds < other.nanoseconds }

    /// The moment that is `span` later than `moment`.
    public static func + (moment: Self, span: TimeSpan) -> Self {
        Self(nanoseconds: moment.nanoseconds &+ span.nanoseconds)
    }

    /// The time from an earlier moment to this one; zero if `earlier` is in fact later.
    public func since(_ earlier: Self) -> TimeSpan {
        TimeSpan(nanoseconds: nanoseconds > earlier.nanoseconds ? nanoseconds - earlier.nanoseconds : 0)
    }

    public var description: String { "\(nanoseconds / 1_000_000) ms" }
}

/// A length of time in nanoseconds, never negative.
public struct TimeSpan: Hashable, Comparable, Sendable, CustomStringConvertible {
    public let nanoseconds: UInt64
    public init(nanoseconds: UInt64) { self.nanoseconds = nanoseconds }

    public static let zero = Self(nanoseconds: 0)
    public static func milliseconds(_ count: UInt64) -> Self { Self(nanoseconds: count * 1_000_000) }
    public static func seconds(_ count: UInt64) -> Self { Self(nanoseconds: count * 1_000_000_000) }

    public static func < (one: Self, other: Self) -> Bool { one.nanoseconds < other.nanoseconds }

    public var milliseconds: UInt64 { nanoseconds / 1_000_000 }
    public var description: String { "\(milliseconds) ms" }
}
