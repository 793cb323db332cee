// SPDX-License-Identifier: Apache-2.0
import FuseBridge
import Testing

@Suite("Detection of a polling thread that shares a processor with its clients")
struct ProcessorSharingDetectorTests {
    private static let millisecond: UInt64 = 1_000_000
    private var sharing = ProcessorSharingDetector()

    /// Returns for each of `count` requests whether the thread should change its processor. Each request was already waiting
    /// when the thread polled.
    private mutating func found(_ count: Int, at moment: UInt64) -> [Bool] {
        (0..<count).map { _ in sharing.noteRequest(atFirstPoll: true, at: moment) }
    }

    @Test("A polling thread must change its processor after nine requests in a row that were already waiting")
    mutating func aPollingThreadChangesItsProcessorAfterNineRequestsThatWereWaiting() {
        let advice = found(9, at: Self.millisecond)
        #expect(advice == Array(repeating: false, count: 8) + [true])
    }

    @Test("A polling thread keeps its processor if every second request arrives only during a poll")
    mutating func aThreadKeepsItsProcessorIfEverySecondRequestArrivesDuringAPoll() {
        for _ in 1...100 {
            let advice = (
                sharing.noteRequest(atFirstPoll: true, at: Self.millisecond),
                sharing.noteRequest(atFirstPoll: false, at: Self.millisecond)
            )
            #expect(advice == (false, false))
        }
    }

    @Test("Requests that were waiting before a sleep of the thread are not counted after the sleep")
    mutating func aPollingThreadsSleepResetsItsCountOfRequestsThatWereWaiting() {
        let before = found(8, at: Self.millisecond)
        sharing.reset()
        let after = found(8, at: Self.millisecond)
        #expect(before + after == Array(repeating: false, count: 16))
    }

    @Test("If clients follow the thread, the time to the next change of processor doubles, up to 16 ms")
    mutating func repeatedProcessorChangesAreDelayedUpTo16Milliseconds() {
        let step = Self.millisecond / 10
        var left: [UInt64] = []
        for now in stride(from: Self.millisecond, through: 100 * Self.millisecond, by: Int(step)) {
            if found(9, at: now).contains(true) { left.append(now) }
        }
        let waits = zip(left, left.dropFirst()).map { ($1 - $0) / Self.millisecond }
        #expect(waits == [1, 2, 4, 8, 16, 16, 16, 16, 16])
    }

    @Test(
        "If no client follows the thread for a while, the time to the next change of processor becomes short")
    mutating func theTimeToAThreadsNextProcessorChangeBecomesShortIfNoClientFollows() {
        var now = Self.millisecond
        for wait: UInt64 in [1, 2, 4] {
            #expect(found(9, at: now).last == true)
            now += wait * Self.millisecond
        }
        now += 11 * Self.millisecond
        #expect(found(9, at: now).last == true)
        #expect(found(9, at: now + Self.millisecond - 1).contains(true) == false)
        #expect(found(1, at: now + Self.millisecond) == [true])
    }
}
