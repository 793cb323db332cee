// SPDX-License-Identifier: Apache-2.0
import Coordination
import Testing

@testable import FilesystemServer

/// The steps after the kernel has lost events about rights that changed out of band (D215).
@Suite("Very many changes of rights out of band")
struct RightsThrottleTests {
    private func at(_ seconds: UInt64) -> Instant { Instant(nanoseconds: 1) + .seconds(seconds) }

    @Test("However often events are lost in a row, all attributes are invalidated once")
    func invalidatesAllOnce() {
        var pace = RightsThrottle()
        #expect(pace.step(hasOverflowed: false, at: at(0)) == .look)
        #expect(pace.step(hasOverflowed: true, at: at(1)) == .invalidateAll)
        for second: UInt64 in 2...60 {
            #expect(pace.step(hasOverflowed: second.isMultiple(of: 4), at: at(second)) == .drop, "\(second)")
        }
    }

    @Test("After five seconds without a loss, events are read again")
    func resumesAfterFiveSeconds() {
        var pace = RightsThrottle()
        _ = pace.step(hasOverflowed: true, at: at(1))
        #expect(pace.resumeAt == at(6))
        #expect(pace.step(hasOverflowed: false, at: at(5)) == .drop)
        #expect(pace.step(hasOverflowed: false, at: at(6)) == .look)
        #expect(pace.resumeAt == nil)
        #expect(pace.step(hasOverflowed: true, at: at(7)) == .invalidateAll)
    }

    @Test(
        "However many events there are to read, a pause comes after 16 reads, or after a full queue of the kernel",
        arguments: [false, true])
    func pausesBetweenReadings(isOverwhelmed: Bool) {
        var pace = RightsThrottle()
        _ = pace.step(hasOverflowed: isOverwhelmed, at: at(1))
        for reading in 1...1280 {
            pace.noteReading(of: RightsThrottle.many)
            #expect(pace.readsOn != reading.isMultiple(of: isOverwhelmed ? 128 : 16), "\(reading)")
        }
        pace.noteReading(of: RightsThrottle.many)
        pace.noteReading(of: RightsThrottle.many - 1)
        #expect(!pace.readsOn)
    }
}
