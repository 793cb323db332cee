// SPDX-License-Identifier: Apache-2.0

/// Detects that the poller seems to share one processor with the client, so that the poller moves to another processor.
///
/// On a shared processor, the poller finds each request at the first poll: the client runs after the answer, and the poller
/// runs when the client waits. So polling gains little. The kernel usually wakes a thread on an idle processor. It does not
/// if the client may run on one processor only, or if it packs the threads of a virtual machine onto few processors. The
/// poller can move away from such a client. A packed client may follow, but less and less as the kernel learns how busy both
/// threads are.
package struct ProcessorSharingDetector {
    /// The number of requests in a row that were found at the first poll; each later find halves the count.
    private static let enough = 8
    /// If the threads share a processor again within this time, the client followed. In nanoseconds.
    private static let soon: UInt64 = 10_000_000
    /// How long the poller stays after a move, in nanoseconds; the time doubles whenever the client followed.
    private static let (shortest, longest): (UInt64, UInt64) = (1_000_000, 16_000_000)

    private var count = 0
    /// The moment until which the poller stays on its processor.
    private var end: UInt64 = 0
    private var pause = shortest

    package init() {}

    /// Forgets the count, because the requests of the meantime are unknown.
    package mutating func reset() { count = 0 }

    /// Notes that a request was found, and returns whether to move to another processor.
    ///
    /// `isFirst` tells whether the first poll found it. `now` is a moment of the monotonic clock.
    package mutating func noteRequest(atFirstPoll isFirst: Bool, at now: UInt64) -> Bool {
        count = isFirst ? min(count, Self.enough) + 1 : count / 2
        guard count > Self.enough, now >= end else { return false }
        count = 0
        pause = end != 0 && now < end + Self.soon ? min(2 * pause, Self.longest) : Self.shortest
        end = now + pause
        return true
    }
}
