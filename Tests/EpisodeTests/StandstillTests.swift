// SPDX-License-Identifier: Apache-2.0
import Coordination
import Testing

@testable import CoordinatedFilesystem

/// How long a request may keep a program from being stopped or frozen (D200).
@Suite("Programs that are to stand still while they wait")
struct StandstillTests {
    /// The daemon is told of the first signal at once, and looks again at intervals.
    private func timeUntilLetThrough(_ standstill: Standstill) -> Span {
        let first = Instant(nanoseconds: 1)
        var now = first
        while !standstill.isOver(since: first, at: now) { now = now + Parking.interval }
        return now.since(first)
    }

    @Test(
        "A freezer that gives up after a second gets a call of three requests that wait, one after the other")
    func freezing() {
        let each = timeUntilLetThrough(.freezing)
        #expect(Span(nanoseconds: 3 * each.nanoseconds) < .seconds(1))
    }

    @Test("A program that is only stopped keeps its turn for a second")
    func stopped() {
        #expect(timeUntilLetThrough(.stopped) == .seconds(1))
    }
}
