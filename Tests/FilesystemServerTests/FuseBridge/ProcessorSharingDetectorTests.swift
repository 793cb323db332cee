// SPDX-License-Identifier: Apache-2.0
import FuseBridge
import Testing

@Suite("Whether a polling thread shares a processor with its clients")
struct ProcessorSharingDetectorTests {
    private static let millisecond: UInt64 = 1_000_000
    private var sharing = ProcessorSharingDetector()

    /// Whether the thread should leave, after each of so many requests that were there at the first poll, all at one moment.
    private mutating func found(_ count: Int, at moment: UInt64) -> [Bool] {
        (0..<count).map { _ in sharing.noteRequest(atFirstPoll: true, at: moment) }
    }

    @Test("It leaves at the ninth request in a row that was there")
    mutating func leavesAtNinthHit() {
        let advice = found(9, at: Self.millisecond)
        #expect(advice == Array(repeating: false, count: 8) + [true])
    }

    @Test("It stays if every second request had to be waited for")
    mutating func staysWhenApart() {
        for _ in 1...100 {
            let advice = (
                sharing.noteRequest(atFirstPoll: true, at: Self.millisecond),
                sharing.noteRequest(atFirstPoll: false, at: Self.millisecond)
            )
            #expect(advice == (false, false))
        }
    }

    @Test("Requests before a sleep count no more")
    mutating func sleepResetsCount() {
        let before = found(8, at: Self.millisecond)
        sharing.reset()
        let after = found(8, at: Self.millisecond)
        #expect(before + after == Array(repeating: false, count: 16))
    }

    @Test("A thread that was followed stays, twice as long each time, for 16 ms at most")
    mutating func backsOffWhenFollowed() {
        let step = Self.millisecond / 10
        var left: [UInt64] = []
        for now in stride(from: Self.millisecond, through: 100 * Self.millisecond, by: Int(step)) {
            if found(9, at: now).contains(true) { left.append(now) }
        }
        let waits = zip(left, left.dropFirst()).map { ($1 - $0) / Self.millisecond }
        #expect(waits == [1, 2, 4, 8, 16, 16, 16, 16, 16])
    }

    @Test("A thread that was not followed for a while starts anew")
    mutating func backoffResets() {
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
