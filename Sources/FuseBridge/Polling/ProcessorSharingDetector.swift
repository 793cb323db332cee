// SPDX-License-Identifier: Apache-2.0

/// Tells when the thread that looks for requests seems to be on one processor with the one that makes them, and had better leave it.
///
/// Then it finds each at the first look: whom it answers runs instead of it, and it goes on when that one waits for the next
/// answer. So to look gains little. The kernel wakes a thread on a processor that has nothing to do, but not where the
/// client may run on one processor only, nor where it packs the threads of a virtual machine onto few of them. From the one who
/// looks can move away; by the other it may be followed, less and less as the kernel learns how busy both are.
package struct ProcessorSharingDetector {
    /// More requests in a row that were there at the first look; each that was not halves their number.
    private static let enough = 8
    /// Who shares a processor again within this time was followed. Times are in nanoseconds.
    private static let soon: UInt64 = 10_000_000
    /// For how long it stays then; twice as long each time.
    private static let (shortest, longest): (UInt64, UInt64) = (1_000_000, 16_000_000)

    private var count = 0
    /// Until when it stays where it is.
    private var end: UInt64 = 0
    private var pause = shortest

    package init() {}

    /// Nothing is known of the requests that came meanwhile.
    package mutating func reset() { count = 0 }

    /// A request of a thread was found, at the first look or later, at a moment of the monotonic clock. Returns whether to move.
    package mutating func noteRequest(atFirstPoll isFirst: Bool, at now: UInt64) -> Bool {
        count = isFirst ? min(count, Self.enough) + 1 : count / 2
        guard count > Self.enough, now >= end else { return false }
        count = 0
        pause = end != 0 && now < end + Self.soon ? min(2 * pause, Self.longest) : Self.shortest
        end = now + pause
        return true
    }
}
