// SPDX-License-Identifier: Apache-2.0
import Coordination
import Testing

@testable import FilesystemServer

/// The kernel has lost events about rights that were changed out of band. The tests check what the daemon does then (D215).
@Suite("Many out-of-band changes of rights")
struct RightsThrottleTests {
    private func at(_ seconds: UInt64) -> Instant { Instant(nanoseconds: 1) + .seconds(seconds) }

    @Test("If the kernel loses events again and again, all attributes are invalidated only once")
    func repeatedEventLossInvalidatesAttributesOnce() {
        var pace = RightsThrottle()
        #expect(pace.step(hasOverflowed: false, at: at(0)) == .look)
        #expect(pace.step(hasOverflowed: true, at: at(1)) == .invalidateAll)
        for second: UInt64 in 2...60 {
            #expect(pace.step(hasOverflowed: second.isMultiple(of: 4), at: at(second)) == .drop, "\(second)")
        }
    }

    @Test("From five seconds after the kernel last lost events, the reader checks each event separately")
    func singleEventsAreCheckedFiveSecondsAfterALossOfEvents() {
        var pace = RightsThrottle()
        _ = pace.step(hasOverflowed: true, at: at(1))
        #expect(pace.resumeAt == at(6))
        #expect(pace.step(hasOverflowed: false, at: at(5)) == .drop)
        #expect(pace.step(hasOverflowed: false, at: at(6)) == .look)
        #expect(pace.resumeAt == nil)
        #expect(pace.step(hasOverflowed: true, at: at(7)) == .invalidateAll)
    }

    @Test(
        "The reader of events pauses after 16 full reads, or after 128 when the kernel's queue was full",
        arguments: [false, true])
    func theReaderOfEventsPausesAfterManyEvents(isOverwhelmed: Bool) {
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
