// SPDX-License-Identifier: Apache-2.0
import Coordination
import Testing

@testable import FilesystemServer

/// A program is stopped or frozen while its request waits. The tests check for how long the waiting request delays the stop or
/// freeze (D200).
@Suite("Programs that are stopped or frozen while they wait")
struct RequesterStopTests {
    /// Returns the time from the first stop signal until the daemon lets the request through. The daemon checks at fixed
    /// intervals.
    private func timeUntilLetThrough(_ stop: RequesterStop) -> TimeSpan {
        let first = Instant(nanoseconds: 1)
        var now = first
        while !stop.isOver(since: first, at: now) { now = now + ParkedRequests.interval }
        return now.since(first)
    }

    @Test(
        "If a freezer freezes a waiting program, three waits in a row end within a second")
    func threeWaitsOfAFrozenProgramEndWithinASecond() {
        let each = timeUntilLetThrough(.freezing)
        #expect(TimeSpan(nanoseconds: 3 * each.nanoseconds) < .seconds(1))
    }

    @Test("A stopped program keeps its place in the lock queue for one second")
    func aStoppedProgramStaysInTheLockQueueForASecond() {
        #expect(timeUntilLetThrough(.stopped) == .seconds(1))
    }
}
