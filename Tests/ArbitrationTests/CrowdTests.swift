// SPDX-License-Identifier: Apache-2.0
import Arbitration
import ArbitrationSimulation
import Coordination
import Testing

/// Rules that hold only when very many claims wait.
@Suite("Crowds")
struct CrowdTests {
    private static let wanted: UInt64 = 1

    /// One holds the item, and so many threads of some processes wait for it.
    private static func crowd(_ waiters: UInt64, of processes: UInt64, _ bounds: Bounds = Bounds())
        -> Conversation
    {
        var talk = Conversation(bounds)
        talk.claim(1, .write(.updating), wanted, by: .process(10))
        for number in 2..<(2 + waiters) {
            talk.claim(number, .write(.updating), wanted, by: thread(number, of: number % processes))
        }
        return talk
    }

    private static func thread(_ number: UInt64, of process: UInt64) -> Party {
        var party = Party.process(Int32(100 + process))
        party.thread = Int32(number)
        return party
    }

    private static var patient: Bounds {
        var bounds = Bounds()
        (bounds.hold, bounds.glance) = (.seconds(600), .seconds(600))
        return bounds
    }

    /// Rule T5: of all whose time runs out at once a part goes ahead with each tick, and the next tick is asked for at once.
    @Test func ticksAreBounded() {
        var talk = Self.crowd(1_000, of: 3, Self.patient)
        var ticks: [Int] = []
        talk.now = talk.now + .seconds(20)
        repeat {
            talk.tick(at: talk.now)
            ticks.append(talk.granted.count)
        } while talk.wakes.next.map { $0 <= talk.now } ?? false
        #expect(ticks == [512, 488])
    }

    /// Rule G5: a grant lists so many of those that it passes, and says that there are more.
    @Test func grantsListABoundedNumber() {
        let most = Crowd().passed
        var talk = Self.crowd(UInt64(most) + 2, of: UInt64(most) + 2, Self.patient)
        talk.tick(at: talk.now + .seconds(20))
        let grants = talk.effects.compactMap { if case .grant(_, let grant) = $0 { grant } else { nil } }
        #expect(grants.count == most + 2)
        // The first passes the holder alone, each other one more.
        #expect(grants[most - 1].passed.map(\.claim) == (1...most).map { ClaimID(UInt64($0)) })
        #expect(!grants[most - 1].passesMore)
        #expect(grants[most].passed == grants[most - 1].passed)
        #expect(grants[most].passesMore)
    }

    /// Rules D1, D5: threads of one program that hold nothing hang on nobody, so nothing is looked at for cycles, however many
    /// wait, and when their time runs out.
    @Test func threadsThatHoldNothingAreNotLookedAt() {
        var talk = Self.crowd(900, of: 3, Self.patient)
        talk.now = talk.now + .seconds(20)
        repeat { talk.tick(at: talk.now) } while talk.wakes.next.map { $0 <= talk.now } ?? false
        for number in 2...901 as ClosedRange<UInt64> { talk.tell(.ended(ClaimID(number))) }
        #expect(talk.arbiter.stepsOfSearch == 0)
    }

    /// Rules D2, D5: a deadlock is found at once while 64 programs wait, though they have a thousand threads; and at the next
    /// whole second while more do.
    @Test(arguments: [(62, true), (63, false)] as [(UInt64, Bool)])
    func deadlocksInCrowds(others: UInt64, isAtOnce: Bool) {
        var talk = Self.crowd(1_000, of: others, Self.patient)
        talk.now = Instant(nanoseconds: 1_300_000_000)
        talk.claim(5_001, .write(.updating), 7, by: .process(50))
        talk.claim(5_002, .write(.updating), 8, by: .process(51))
        talk.claim(5_003, .write(.updating), 8, by: .process(50))
        talk.claim(5_004, .write(.updating), 7, by: .process(51))
        func isFound() -> Bool {
            talk.effects.contains { if case .deadlock = $0 { true } else { false } }
        }
        #expect(isFound() == isAtOnce)
        if isAtOnce { return }
        talk.tick(at: Instant(nanoseconds: 1_999_999_999))
        #expect(!isFound())
        talk.tick(at: Instant(nanoseconds: 2_000_000_000))
        #expect(isFound())
    }

    /// Rule Q5: who reads passes the writers that it keeps out, but not in a crowded queue; and it goes on when that is crowded no
    /// longer.
    @Test func aCrowdedQueueIsNotPassedByReaders() {
        var talk = Conversation(Self.patient)
        talk.claim(1, .read(), Self.wanted, by: .process(10))
        for number in 2..<258 as Range<UInt64> {
            talk.claim(number, .write(.updating), Self.wanted, by: Self.thread(number, of: number % 3))
        }
        talk.claim(258, .read(), Self.wanted, by: .process(10))
        #expect(talk.granted.isEmpty)
        talk.tell(.withdrawn(ClaimID(100)))
        #expect(talk.granted == [ClaimID(258)])
        talk.claim(259, .read(), Self.wanted, by: .process(10))
        #expect(talk.granted == [ClaimID(259)])
    }

    /// Rule Q5: a writer's program passes all that it keeps out, however many those are.
    @Test func aCrowdedQueueIsPassedByTheHoldersProgram() {
        var talk = Self.crowd(300, of: 3, Self.patient)
        talk.claim(5_000, .write(.updating), Self.wanted, by: .process(10))
        #expect(talk.granted == [ClaimID(5_000)])
    }
}
