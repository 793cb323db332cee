// SPDX-License-Identifier: Apache-2.0
import Coordination
import Testing

@testable import CoordinatedFilesystem

/// The steps that follow when the kernel has lost news of changed rights around a mount (D215).
@Suite("Very many changes of rights around a mount")
struct RightsPaceTests {
    private func at(_ seconds: UInt64) -> Instant { Instant(nanoseconds: 1) + .seconds(seconds) }

    @Test("However often changes are lost in a row, all attributes are doubted once")
    func once() {
        var pace = RightsPace()
        #expect(pace.step(hasLost: false, at: at(0)) == .look)
        #expect(pace.step(hasLost: true, at: at(1)) == .doubtAll)
        for second: UInt64 in 2...60 {
            #expect(pace.step(hasLost: second.isMultiple(of: 4), at: at(second)) == .drop, "\(second)")
        }
    }

    @Test("When none is lost for five seconds, changes are looked at again")
    func calm() {
        var pace = RightsPace()
        _ = pace.step(hasLost: true, at: at(1))
        #expect(pace.calmFrom == at(6))
        #expect(pace.step(hasLost: false, at: at(5)) == .drop)
        #expect(pace.step(hasLost: false, at: at(6)) == .look)
        #expect(pace.calmFrom == nil)
        #expect(pace.step(hasLost: true, at: at(7)) == .doubtAll)
    }

    @Test(
        "However many changes there are to read, a pause comes after 16 readings, or after all that the kernel keeps",
        arguments: [false, true])
    func pauses(isOverwhelmed: Bool) {
        var pace = RightsPace()
        _ = pace.step(hasLost: isOverwhelmed, at: at(1))
        for reading in 1...1280 {
            pace.noteReading(of: RightsPace.many)
            #expect(pace.readsOn != reading.isMultiple(of: isOverwhelmed ? 128 : 16), "\(reading)")
        }
        pace.noteReading(of: RightsPace.many)
        pace.noteReading(of: RightsPace.many - 1)
        #expect(!pace.readsOn)
    }
}
