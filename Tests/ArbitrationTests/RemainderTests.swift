// SPDX-License-Identifier: Apache-2.0
import Arbitration
import Coordination
import Testing

/// What the arbiter remembers: no more than it must, and nothing when all is over.
@Suite("Remainders")
struct RemainderTests {
    /// Rule I4: the indexes of parties let go of each claim, however it came and went.
    @Test func nothingIsLeftOfClaimsThatAreOver() {
        var talk = Conversation()
        let parties = [
            Party.process(100), .process(101, below: 100), .process(200, below: 1),
            .process(300, purpose: "a"),
        ]
        for (index, party) in parties.enumerated() {
            talk.claim(UInt64(index), .write(.updating), 1, by: party, as: index == 3 ? .aware : .handle)
        }
        talk.tell(.withdrawn(ClaimID(2)))
        for index in parties.indices { talk.tell(.ended(ClaimID(UInt64(index)))) }
        talk.tick(at: Instant(nanoseconds: 0) + Bounds().wait)
        talk.tick(at: talk.now + Bounds().wait)
        #expect(talk.arbiter.isAtRest)
        #expect(talk.arbiter.remembered == 0)
    }

    /// Rule I5: nothing is left of presenters either.
    @Test func nothingIsLeftOfPresentersThatAreGone() {
        var talk = Conversation()
        talk.tell(.placed(ItemID(1), Directory(in: nil)))
        talk.tell(.placed(ItemID(2), Directory(in: ItemID(1), isPackage: true)))
        talk.present(1, 2, in: 1, by: .process(50))
        talk.present(2, 20, in: 2, by: .process(51))
        talk.present(3, nil, by: .process(52))
        talk.claim(1, .read(), 20, in: 2, by: .process(100))
        #expect(!talk.asked.isEmpty)
        talk.tell(.shown(PresenterID(3), ItemID(21), at: Place(in: ItemID(2))))
        for number in 1...3 as ClosedRange<UInt64> { talk.tell(.removed(PresenterID(number))) }
        talk.tell(.ended(ClaimID(1)))
        for item in [2, 1] as [UInt64] { talk.tell(.forgotten(ItemID(item))) }
        talk.tick(at: talk.now + Bounds().wait)
        #expect(talk.arbiter.isAtRest)
        #expect(talk.arbiter.remembered == 0)
    }

    /// Rule T3: alarms of those who have gone do not pile up, and those of the others come when they should.
    @Test func alarmsOfThoseWhoHaveGoneDoNotPileUp() {
        var talk = Conversation()
        talk.claim(1, .write(.updating), 1)
        var most = 0
        for number in 2...2_000 as ClosedRange<UInt64> {
            talk.now = talk.now + .milliseconds(1)
            talk.claim(number, .write(.updating), 1)
            talk.tell(.withdrawn(ClaimID(number)))
            most = max(most, talk.arbiter.remembered)
        }
        #expect(most < 100, "\(most) records of one claim at a time")
    }

    /// Rules T3, T4: whatever was dropped between them, everybody's time runs out in its turn.
    @Test func waitsEndInTheirOrderWhenMostHaveGone() {
        var bounds = Bounds()
        (bounds.wait, bounds.hold) = (.seconds(15), .seconds(60))
        var talk = Conversation(bounds)
        talk.claim(1_000, .write(.updating), 1)
        var left: [ClaimID] = []
        // In no order of time at all would be impossible: but what stays is scattered over the heap.
        for number in 1_001...1_400 as ClosedRange<UInt64> {
            talk.now = talk.now + .milliseconds(1)
            talk.claim(number, .write(.updating), 1)
            if number % 7 == 0 { left.append(ClaimID(number)) }
        }
        for number in 1_001...1_400 as ClosedRange<UInt64> where number % 7 != 0 {
            talk.tell(.withdrawn(ClaimID(number)))
        }
        var granted: [ClaimID] = []
        for step in 0..<400 as Range<UInt64> {
            talk.tick(at: Instant(nanoseconds: 0) + bounds.wait + .milliseconds(step + 1))
            granted += talk.granted
        }
        #expect(granted == left)
    }
}
