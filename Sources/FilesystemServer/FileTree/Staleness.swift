// SPDX-License-Identifier: Apache-2.0

/// When a name of a directory was last found to be gone or another file's, because a program had taken it away around the mount.
///
/// The kernel walks the path of such a request a second time, and not a third (D214). What a look finds in this directory in the
/// time after that is kept open, so that the request finds it, whatever becomes of the name. Looks in other directories cost what they
/// did: a program that has names of its own taken away all the time slows down no others.
struct Staleness: Sendable {
    /// How long the kernel's second walk may take.
    private static let period: UInt32 = 1_000
    /// In milliseconds of the monotonic clock, or 0. After 49 days it comes round, and one more look or less keeps a file open.
    private var last: UInt32 = 0

    mutating func note(at nanoseconds: UInt64) { last = max(1, Self.milliseconds(nanoseconds)) }

    /// Costs nothing where nothing was stale.
    func isRecent(at nanoseconds: @autoclosure () -> UInt64) -> Bool {
        last > 0 && Self.milliseconds(nanoseconds()) &- last < Self.period
    }

    private static func milliseconds(_ nanoseconds: UInt64) -> UInt32 {
        UInt32(truncatingIfNeeded: nanoseconds / 1_000_000)
    }
}
