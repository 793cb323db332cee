// SPDX-License-Identifier: Apache-2.0

/// Detects that the poller probably runs on the same processor as the client. The poller then moves to another processor.
///
/// On a shared processor, the poller finds each request at its first poll: the client runs after the answer, and the poller
/// runs when the client waits. So polling gains little. The kernel usually wakes a thread on an idle processor. There are two
/// exceptions. Some clients may run on one processor only, and some kernels pack the threads of a virtual machine onto few
/// processors.
///
/// In both cases the poller can move away from the client. A kernel that packs threads may move the client after the poller.
/// This happens less and less, because the kernel learns how busy both threads are.
package struct ProcessorSharingDetector {
    /// If more than this number of requests in a row are found at the first poll, the poller and the client share a processor.
    /// Each request that is found at a later poll halves the count.
    private static let enough = 8
    /// A time in nanoseconds after a move of the poller. If the poller and the client share a processor again within this time,
    /// the client has followed the poller.
    private static let soon: UInt64 = 10_000_000
    /// The shortest and longest time for which the poller stays on its processor after a move, in nanoseconds. The time doubles
    /// each time the client has followed the poller.
    private static let (shortest, longest): (UInt64, UInt64) = (1_000_000, 16_000_000)

    private var count = 0
    /// The time until which the poller stays on its processor.
    private var end: UInt64 = 0
    private var pause = shortest

    package init() {}

    /// Sets the count to 0. Called when the thread has slept in `read`, so it does not know how the requests meanwhile were
    /// found.
    package mutating func reset() { count = 0 }

    /// Notes that polling has found a request. Returns whether the poller should move to another processor.
    ///
    /// `isFirst` tells whether the first poll has found the request. `now` is a time of the monotonic clock.
    package mutating func noteRequest(atFirstPoll isFirst: Bool, at now: UInt64) -> Bool {
        count = isFirst ? min(count, Self.enough) + 1 : count / 2
        guard count > Self.enough, now >= end else { return false }
        count = 0
        pause = end != 0 && now < end + Self.soon ? min(2 * pause, Self.longest) : Self.shortest
        end = now + pause
        return true
    }
}
