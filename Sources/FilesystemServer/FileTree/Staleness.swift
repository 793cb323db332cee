// SPDX-License-Identifier: Apache-2.0

/// The time at which a name in a directory was last found to be removed or replaced out of band.
///
/// A request that fails for this reason makes the kernel walk along its path a second time, but not a third time (D214). During
/// the second walk, the daemon holds open each file that is looked up in this directory. So the request finds the file even if
/// its name is removed again. Look-ups in other directories take no more time, even if a program constantly replaces names out
/// of band in this directory.
struct Staleness: Sendable {
    /// The time in which the kernel finishes its second walk, in milliseconds.
    private static let period: UInt32 = 1_000
    /// The monotonic time in milliseconds, or 0 if no name was lost. The number wraps after 49 days; when it wraps, one file
    /// too many or too few may be held open.
    private var last: UInt32 = 0

    mutating func note(at nanoseconds: UInt64) { last = max(1, Self.milliseconds(nanoseconds)) }

    /// Whether a name was lost within the last ``period``. The clock is not read if no name was ever lost.
    func isRecent(at nanoseconds: @autoclosure () -> UInt64) -> Bool {
        last > 0 && Self.milliseconds(nanoseconds()) &- last < Self.period
    }

    private static func milliseconds(_ nanoseconds: UInt64) -> UInt32 {
        UInt32(truncatingIfNeeded: nanoseconds / 1_000_000)
    }
}
