// SPDX-License-Identifier: Apache-2.0

/// How numbers that we give ourselves are spread over the buckets of dictionaries.
package enum Numbering {
    /// Without the secret that dictionaries mix in: nobody else can choose the numbers.
    ///
    /// Thirty-two that follow each other stay together, so that claims which are made one after another lie beside each
    /// other in memory and cost nearly the same however many there are (with eight it was a third more beside 100,000 of
    /// them); these are spread, because a dictionary that is filled without gaps is slow to remove from.
    @inlinable
    package static func hash(_ number: UInt64) -> Int {
        let spread = (number >> 5) &* 0x9E37_79B9_7F4A_7C15
        return Int(truncatingIfNeeded: (spread >> 29) & ~31 | number & 31)
    }
}

/// Names one document or directory to the arbiter.
///
/// Follows the document through safe saves: the file that replaces it under its name takes the number
/// over, and the replaced file gets a fresh one. Never used twice while a mount lives.
public struct ItemID: Hashable, Comparable, Sendable, CustomStringConvertible {
    public let rawValue: UInt64
    public init(_ rawValue: UInt64) { self.rawValue = rawValue }
    public static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }
    public var description: String { "@\(rawValue)" }
    public func _rawHashValue(seed: Int) -> Int { Numbering.hash(rawValue) }
}

/// Names one claim for its whole life.
///
/// Larger numbers were made later.
public struct ClaimID: Hashable, Comparable, Sendable, CustomStringConvertible {
    public let rawValue: UInt64
    public init(_ rawValue: UInt64) { self.rawValue = rawValue }
    public static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }
    public var description: String { "#\(rawValue)" }

    public func _rawHashValue(seed: Int) -> Int { Numbering.hash(rawValue) }
}

/// A moment of the monotonic clock, in nanoseconds; always handed in, never asked for.
public struct Instant: Hashable, Comparable, Sendable, CustomStringConvertible {
    public let nanoseconds: UInt64
    public init(nanoseconds: UInt64) { self.nanoseconds = nanoseconds }

    public static func < (one: Self, other: Self) -> Bool { one.nanoseconds < other.nanoseconds }

    /// Later by a span that is not negative.
    public static func + (moment: Self, span: TimeSpan) -> Self {
        Self(nanoseconds: moment.nanoseconds &+ span.nanoseconds)
    }

    /// The span since an earlier moment; zero if `earlier` is later.
    public func since(_ earlier: Self) -> TimeSpan {
        TimeSpan(nanoseconds: nanoseconds > earlier.nanoseconds ? nanoseconds - earlier.nanoseconds : 0)
    }

    public var description: String { "\(nanoseconds / 1_000_000) ms" }
}

/// A length of time that is never negative, in nanoseconds.
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
