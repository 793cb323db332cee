// SPDX-License-Identifier: Apache-2.0

/// When a name in a directory was last found to be removed or replaced out of band.
///
/// The kernel walks the path of such a request a second time, but not a third (D214). During that walk, files that are
/// looked up in this directory are kept open, so the request finds them even if their names disappear. Lookups in other
/// directories cost nothing more, so a program that constantly replaces names out of band slows down no others.
struct Staleness: Sendable {
    /// The longest time for the kernel's second walk, in milliseconds.
    private static let period: UInt32 = 1_000
    /// In milliseconds of the monotonic clock, or 0. It wraps after 49 days: then one file too many or too few is kept open.
    private var last: UInt32 = 0

    mutating func note(at nanoseconds: UInt64) { last = max(1, Self.milliseconds(nanoseconds)) }

    /// Whether a name was lost within the last period. The clock is not read if no name was ever lost.
    func isRecent(at nanoseconds: @autoclosure () -> UInt64) -> Bool {
        last > 0 && Self.milliseconds(nanoseconds()) &- last < Self.period
    }

    private static func milliseconds(_ nanoseconds: UInt64) -> UInt32 {
        UInt32(truncatingIfNeeded: nanoseconds / 1_000_000)
    }
}
