// SPDX-License-Identifier: Apache-2.0

/// Hash values of the numbers that Truce assigns itself.
package enum Numbering {
    /// The hash of a number, without the random seed of dictionaries: only Truce chooses these numbers.
    ///
    /// Thirty-two numbers in sequence stay together, so that claims made one after another are neighbors in memory.
    /// Their cost is then nearly the same for any number of claims. With groups of eight it was a third higher beside
    /// 100,000 claims. The groups are spread, because removal from a dictionary without gaps is slow.
    @inlinable
    package static func hash(_ number: UInt64) -> Int {
        let spread = (number >> 5) &* 0x9E37_79B9_7F4A_7C15
        return Int(truncatingIfNeeded: (spread >> 29) & ~31 | number & 31)
    }
}

/// The number of a document or directory in the arbiter.
///
/// It follows the document through safe saves: the file that replaces the document takes its number over, and the
/// replaced file gets a new number. A number is never used again in the same mount.
public struct ItemID: Hashable, Comparable, Sendable, CustomStringConvertible {
    public let rawValue: UInt64
    public init(_ rawValue: UInt64) { self.rawValue = rawValue }
    public static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }
    public var description: String { "@\(rawValue)" }
    public func _rawHashValue(seed: Int) -> Int { Numbering.hash(rawValue) }
}

/// The number of a claim for its whole life.
///
/// Later claims have larger numbers.
public struct ClaimID: Hashable, Comparable, Sendable, CustomStringConvertible {
    public let rawValue: UInt64
    public init(_ rawValue: UInt64) { self.rawValue = rawValue }
    public static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }
    public var description: String { "#\(rawValue)" }

    public func _rawHashValue(seed: Int) -> Int { Numbering.hash(rawValue) }
}

/// A moment of the monotonic clock, in nanoseconds; always a parameter, never read from the clock here.
public struct Instant: Hashable, Comparable, Sendable, CustomStringConvertible {
    public let nanoseconds: UInt64
    public init(nanoseconds: UInt64) { self.nanoseconds = nanoseconds }

    public static func < (one: Self, other: Self) -> Bool { one.nanoseconds < other.nanoseconds }

    /// The moment that is later by a span.
    public static func + (moment: Self, span: TimeSpan) -> Self {
        Self(nanoseconds: moment.nanoseconds &+ span.nanoseconds)
    }

    /// The span since an earlier moment; zero if `earlier` is later.
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
