// SPDX-License-Identifier: Apache-2.0
import Coordination
import Testing

@testable import FilesystemServer

/// Checks for how long a waiting request may delay the stop or freeze of its program (D200).
@Suite("Programs that are stopped or frozen while they wait")
struct RequesterStopTests {
    /// The time from the first stop signal until the request is let through. The daemon checks again at fixed intervals.
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
    func aStoppedProgramKeepsItsPlaceForASecond() {
        #expect(timeUntilLetThrough(.stopped) == .seconds(1))
    }
}
