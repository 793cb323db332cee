// SPDX-License-Identifier: Apache-2.0
import FuseBridge
import Testing

@Suite("Whether who looks for requests shares a processor with who makes them")
struct SharedProcessorTests {
    private static let millisecond: UInt64 = 1_000_000
    private var sharing = SharedProcessor()

    /// What is advised after so many requests more that were there at the first look, all at one moment.
    private mutating func found(_ count: Int, at moment: UInt64) -> [SharedProcessor.Advice] {
        (0..<count).map { _ in sharing.found(atFirstLook: true, at: moment) }
    }

    @Test("It leaves at the ninth request in a row that was there")
    mutating func leaves() {
        let advice = found(9, at: Self.millisecond)
        #expect(advice == Array(repeating: .stay, count: 8) + [.leave])
    }

    @Test("Not where every other one had to be waited for")
    mutating func apart() {
        for _ in 1...100 {
            let advice = (
                sharing.found(atFirstLook: true, at: Self.millisecond),
                sharing.found(atFirstLook: false, at: Self.millisecond)
            )
            #expect(advice == (.stay, .stay))
        }
    }

    @Test("What was before it slept counts no more")
    mutating func slept() {
        let before = found(8, at: Self.millisecond)
        sharing.slept()
        let after = found(8, at: Self.millisecond)
        #expect(before + after == Array(repeating: .stay, count: 16))
    }

    @Test("Who is followed rests, twice as long each time, for 16 ms at most")
    mutating func followed() {
        var now = Self.millisecond
        var waits: [UInt64] = []
        for _ in 1...9 {
            #expect(found(9, at: now).last == .leave)
            guard case .rest(let end) = found(9, at: now).last else {
                Issue.record("it did not rest")
                return
            }
            waits.append((end - now) / Self.millisecond)
            now = end
        }
        #expect(waits == [1, 2, 4, 8, 16, 16, 16, 16, 16])
    }

    @Test("Who was not followed for a while is as at first")
    mutating func calm() {
        var now = Self.millisecond
        for _ in 1...3 {
            _ = found(9, at: now)
            guard case .rest(let end) = found(9, at: now).last else {
                Issue.record("it did not rest")
                return
            }
            now = end
        }
        #expect(found(9, at: now).last == .leave)
        now += 11 * Self.millisecond
        #expect(found(9, at: now).last == .leave)
        #expect(found(9, at: now).last == .rest(until: now + Self.millisecond))
    }
}
