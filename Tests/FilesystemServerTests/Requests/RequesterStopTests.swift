// SPDX-License-Identifier: Apache-2.0
import Coordination
import Testing

@testable import FilesystemServer

/// The time for which a request may delay the stop or freeze of a program (D200).
@Suite("Programs that are stopped or frozen while they wait")
struct RequesterStopTests {
    /// The daemon is told of the first signal at once, and checks again at intervals.
    private func timeUntilLetThrough(_ stop: RequesterStop) -> TimeSpan {
        let first = Instant(nanoseconds: 1)
        var now = first
        while !stop.isOver(since: first, at: now) { now = now + ParkedRequests.interval }
        return now.since(first)
    }

    @Test(
        "A freezer that gives up after a second gets a call of three requests that wait, one after the other")
    func freezerIsServedWithinASecond() {
        let each = timeUntilLetThrough(.freezing)
        #expect(TimeSpan(nanoseconds: 3 * each.nanoseconds) < .seconds(1))
    }

    @Test("A program that is only stopped keeps its place in the queue for a second")
    func stoppedProgramWaitsOneSecond() {
        #expect(timeUntilLetThrough(.stopped) == .seconds(1))
    }
}
