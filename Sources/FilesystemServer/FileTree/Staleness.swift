// SPDX-License-Identifier: Apache-2.0

/// The time at which a name in a directory was last found to be removed or replaced out of band.
///
/// A request that finds such a change fails, and the kernel looks up the request's path a second time, but not a third
/// time (D214). During the second look-up, the daemon holds each file open that is looked up in this directory. So the
/// request finds the file even if its name is removed once more. In other directories, the daemon holds no looked-up
/// file open, so look-ups take no extra time.
struct Staleness: Sendable {
    /// The time, in milliseconds, within which the kernel finishes looking up a path the second time.
    private static let period: UInt32 = 1_000
    /// The monotonic time in milliseconds; 0 if no name was lost. The number starts at 0 again after 49 days. Then a file may
    /// be held open needlessly, or not be held open.
    private var last: UInt32 = 0

    mutating func note(at nanoseconds: UInt64) { last = max(1, Self.milliseconds(nanoseconds)) }

    /// Whether a name was found to be lost within the last ``period``. If this has never happened, the clock is not read.
    func isRecent(at nanoseconds: @autoclosure () -> UInt64) -> Bool {
        last > 0 && Self.milliseconds(nanoseconds()) &- last < Self.period
    }

    private static func milliseconds(_ nanoseconds: UInt64) -> UInt32 {
        UInt32(truncatingIfNeeded: nanoseconds / 1_000_000)
    }
}
