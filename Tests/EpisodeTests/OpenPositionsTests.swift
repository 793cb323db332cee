// SPDX-License-Identifier: Apache-2.0
import Coordination
import Testing

@testable import CoordinatedFilesystem

/// How often the descriptors of a process are gone through.
@Suite struct OpenPositionsTests {
    private let process = ProcessID(number: 7, started: 1)
    private let seen: OpenPositions.Seen = [1: [OpenPositions.Position(mode: 0, offset: 5)]]

    /// Looks once a millisecond for a second, and returns how often the descriptors were gone through.
    private func looks(ofLength length: Span) -> Int {
        let positions = OpenPositions()
        var time = Instant(nanoseconds: 0)
        var count = 0
        for millisecond in 0..<1000 as Range<UInt64> {
            let now = Instant(nanoseconds: millisecond * 1_000_000)
            let found = positions.seen(of: process, at: now, spent: { time }) {
                count += 1
                time = time + length
                return seen
            }
            #expect(found == seen)
        }
        return count
    }

    @Test("A look that takes 4 ms is done once in 40 ms, one that takes 90 ms once in 100 ms")
    func isBounded() {
        #expect(looks(ofLength: .milliseconds(4)) == 25)
        #expect(looks(ofLength: .milliseconds(90)) == 10)
    }

    @Test("A process that has few files open is looked at each time")
    func isFresh() {
        #expect(looks(ofLength: Span(nanoseconds: 50_000)) == 1000)
    }

    @Test("What was seen of a process is not said of another one that got its number")
    func isOfOneProcess() {
        let positions = OpenPositions()
        var time = Instant(nanoseconds: 0)
        let now = Instant(nanoseconds: 0)
        _ = positions.seen(of: process, at: now, spent: { time }) {
            time = time + .milliseconds(4)
            return seen
        }
        let other = positions.seen(of: ProcessID(number: 7, started: 2), at: now, spent: { time }) { [:] }
        #expect(other.isEmpty)
    }

    @Test("While one thread looks again, others take what was seen before")
    func isRenewedOnce() {
        let positions = OpenPositions()
        var time = Instant(nanoseconds: 0)
        func look(at moment: UInt64, _ look: () -> OpenPositions.Seen) -> OpenPositions.Seen {
            positions.seen(of: process, at: Instant(nanoseconds: moment), spent: { time }, look)
        }
        _ = look(at: 0) {
            time = time + .milliseconds(4)
            return seen
        }
        let renewed = look(at: 50_000_000) {
            time = time + .milliseconds(4)
            let other = look(at: 50_000_001) {
                Issue.record("two threads look at the same process")
                return [:]
            }
            #expect(other == seen)
            return [:]
        }
        #expect(renewed.isEmpty)
        #expect(look(at: 60_000_000) { seen }.isEmpty)
    }
}
