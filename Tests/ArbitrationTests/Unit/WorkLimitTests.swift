// SPDX-License-Identifier: Apache-2.0
import Arbitration
import ArbitrationSimulation
import Coordination
import Testing

/// Checks of rules that apply only when very many claims wait.
@Suite("Limits of the arbiter's work for one event")
struct WorkLimitTests {
    private static let wanted: UInt64 = 1

    /// An arbiter in which a claim holds the item, and `waiters` threads of `processes` processes wait for the item.
    private static func manyWaiters(_ waiters: UInt64, of processes: UInt64, _ bounds: Bounds = Bounds())
        -> ArbiterHarness
    {
        var harness = ArbiterHarness(bounds)
        harness.claim(1, .write(.updating), wanted, by: .process(10))
        for number in 2..<(2 + waiters) {
            harness.claim(number, .write(.updating), wanted, by: thread(number, of: number % processes))
        }
        return harness
    }

    private static func thread(_ number: UInt64, of process: UInt64) -> Party {
        var party = Party.process(Int32(100 + process))
        party.thread = Int32(number)
        return party
    }

    private static var patient: Bounds {
        var bounds = Bounds()
        (bounds.hold, bounds.firstObservationDelay) = (.seconds(600), .seconds(600))
        return bounds
    }

    /// Rule T5: if very many waits run out at once, a tick grants at most 512 claims and requests another tick at once.
    @Test func atMost512ClaimsWithATimedOutWaitAreGrantedAtATime() {
        var harness = Self.manyWaiters(1_000, of: 3, Self.patient)
        var ticks: [Int] = []
        harness.now = harness.now + .seconds(20)
        repeat {
            harness.tick(at: harness.now)
            ticks.append(harness.granted.count)
        } while harness.wakes.next.map { $0 <= harness.now } ?? false
        #expect(ticks == [512, 488])
    }

    /// Rule G5: a grant lists a limited number of the claims that it preempts. If the grant preempts more claims, a field of
    /// the grant says that the list is incomplete.
    @Test func aGrantListsALimitedNumberOfPreemptedClaims() {
        let most = WorkLimits().preempted
        var harness = Self.manyWaiters(UInt64(most) + 2, of: UInt64(most) + 2, Self.patient)
        harness.tick(at: harness.now + .seconds(20))
        let grants = harness.effects.compactMap { if case .grant(_, let grant) = $0 { grant } else { nil } }
        #expect(grants.count == most + 2)
        // The claims are granted one after another. The first grant preempts only the holder, and each later grant preempts one
        // claim more.
        #expect(grants[most - 1].preempted.map(\.claim) == (1...most).map { ClaimID(UInt64($0)) })
        #expect(!grants[most - 1].preemptsMore)
        #expect(grants[most].preempted == grants[most - 1].preempted)
        #expect(grants[most].preemptsMore)
    }

    /// Rules D1, D5: a program that holds no item cannot be part of a deadlock. So the search takes no step from the claims of
    /// its threads.
    ///
    /// This holds for any number of threads, even when their waits reach the time limit.
    @Test func threadsThatHoldNothingAreNotSearchedForDeadlocks() {
        var harness = Self.manyWaiters(900, of: 3, Self.patient)
        harness.now = harness.now + .seconds(20)
        repeat { harness.tick(at: harness.now) } while harness.wakes.next.map { $0 <= harness.now } ?? false
        for number in 2...901 as ClosedRange<UInt64> { harness.tell(.ended(ClaimID(number))) }
        #expect(harness.arbiter.searchSteps == 0)
    }

    /// Rules D2, D5: as long as at most 64 programs wait, a deadlock is found at once, even if the programs have a thousand
    /// threads.
    ///
    /// If more than 64 programs wait, a deadlock is found at the next whole second. Two programs of the test form the deadlock.
    @Test(arguments: [(62, true), (63, false)] as [(UInt64, Bool)])
    func aDeadlockIsFoundAtOnceAmong64WaitingPrograms(others: UInt64, isAtOnce: Bool) {
        var harness = Self.manyWaiters(1_000, of: others, Self.patient)
        harness.now = Instant(nanoseconds: 1_300_000_000)
        harness.claim(5_001, .write(.updating), 7, by: .process(50))
        harness.claim(5_002, .write(.updating), 8, by: .process(51))
        harness.claim(5_003, .write(.updating), 8, by: .process(50))
        harness.claim(5_004, .write(.updating), 7, by: .process(51))
        func isFound() -> Bool {
            harness.effects.contains { if case .deadlock = $0 { true } else { false } }
        }
        #expect(isFound() == isAtOnce)
        if isAtOnce { return }
        harness.tick(at: Instant(nanoseconds: 1_999_999_999))
        #expect(!isFound())
        harness.tick(at: Instant(nanoseconds: 2_000_000_000))
        #expect(isFound())
    }

    /// Makes a deadlock: each of two programs holds a file and waits for the other program's file.
    private static func entangle(_ harness: inout ArbiterHarness, from number: UInt64) {
        harness.claim(number, .write(.updating), number, by: .process(50))
        harness.claim(number + 1, .write(.updating), number + 1, by: .process(51))
        harness.claim(number + 2, .write(.updating), number + 1, by: .process(50))
        harness.claim(number + 3, .write(.updating), number, by: .process(51))
    }

    /// The first whole second at which a deadlock is found. Nil if no deadlock is found until second `most`.
    private static func secondsUntilFound(_ harness: inout ArbiterHarness, atMost most: UInt64) -> UInt64? {
        for second in 1...most {
            harness.tick(at: Instant(nanoseconds: second * 1_000_000_000))
            if harness.effects.contains(where: { if case .deadlock = $0 { true } else { false } }) {
                return second
            }
        }
        return nil
    }

    /// Rule D5: a program with a thousand waiting children does not delay the search for deadlocks of other programs.
    ///
    /// The program holds a file ten thousand times, and each of its children waits. Two other programs wait for each other, and
    /// their deadlock is found within a second.
    @Test func aProgramWithManyWaitingChildrenDelaysNoDeadlockSearch() {
        var harness = ArbiterHarness(Self.patient)
        harness.now = Instant(nanoseconds: 1)
        let holds: UInt64 = 10_000
        for number in 1...holds { harness.claim(number, .read(), Self.wanted, by: .process(10)) }
        // Process 11 is no relative of the program. It holds the same file, and a thousand files for which the children wait.
        harness.claim(holds + 1, .read(), Self.wanted, by: .process(11))
        for number in 0..<1_000 as Range<UInt64> {
            harness.claim(20_000 + number, .write(.updating), 20_000 + number, by: .process(11))
        }
        let before = harness.arbiter.examinedClaims
        for number in 0..<1_000 as Range<UInt64> {
            let item = number == 500 ? Self.wanted : 20_000 + number
            harness.claim(
                30_000 + number, .write(.updating), item, by: .process(Int32(1_000 + number), below: 10))
        }
        Self.entangle(&harness, from: 40_000)
        #expect((harness.arbiter.examinedClaims - before) / 1_000 < 200)
        #expect(Self.secondsUntilFound(&harness, atMost: 1) == 1)
        #expect(harness.arbiter.searchSteps < 2 * WorkLimits().steps)
        // For one event of the program the arbiter examines few claims, however many claims the program has.
        let later = harness.arbiter.examinedClaims
        for number in 1...500 as ClosedRange<UInt64> { harness.tell(.ended(ClaimID(number))) }
        #expect((harness.arbiter.examinedClaims - later) / 500 < 50)
    }

    /// Rule D5: at each whole second the search takes a limited number of steps. In the next second it continues where it
    /// stopped, and uses the results so far.
    @Test func aDeadlockSearchResumesWhereItStopped() {
        var limits = WorkLimits()
        (limits.programs, limits.steps, limits.stepsPerRoot) = (1, 300, 50)
        var harness = ArbiterHarness(Self.patient, limits)
        harness.now = Instant(nanoseconds: 1)
        // Each of 200 programs holds a file and waits for the file of the next program.
        for number in 1...200 as ClosedRange<UInt64> {
            harness.claim(number, .write(.updating), number, by: .process(Int32(1_000 + number)))
        }
        for number in 1..<200 as Range<UInt64> {
            harness.claim(1_000 + number, .write(.updating), number + 1, by: .process(Int32(1_000 + number)))
        }
        Self.entangle(&harness, from: 5_000)
        let found = Self.secondsUntilFound(&harness, atMost: 8)
        #expect(found != nil)
        #expect(harness.arbiter.searchSteps < 2 * limits.steps)
    }

    /// Rule Q5: if a program already reads an item, a further reader of this program overtakes waiting writers. It does not
    /// overtake them in a queue with more waiting claims than a limit.
    ///
    /// In such a queue, the reader is granted when only half as many claims as the limit wait.
    @Test func readersDoNotOvertakeWritersInALongLockQueue() {
        var harness = ArbiterHarness(Self.patient)
        harness.claim(1, .read(), Self.wanted, by: .process(10))
        for number in 2..<258 as Range<UInt64> {
            harness.claim(number, .write(.updating), Self.wanted, by: Self.thread(number, of: number % 3))
        }
        harness.claim(258, .read(), Self.wanted, by: .process(10))
        #expect(harness.granted.isEmpty)
        for number in 2..<130 as Range<UInt64> { harness.tell(.withdrawn(ClaimID(number))) }
        #expect(harness.granted.isEmpty)
        harness.tell(.withdrawn(ClaimID(130)))
        #expect(harness.granted == [ClaimID(258)])
        harness.claim(259, .read(), Self.wanted, by: .process(10))
        #expect(harness.granted == [ClaimID(259)])
    }

    /// Rule Q5: while the length of a queue changes around its limit, an event examines few claims on average.
    @Test func theArbiterExaminesFewClaimsPerEventInALockQueueAtItsLengthLimit() {
        var harness = Self.manyWaiters(256, of: 3, Self.patient)
        let before = harness.arbiter.examinedClaims
        for number in 1_000..<1_100 as Range<UInt64> {
            harness.claim(number, .write(.updating), Self.wanted, by: Self.thread(number, of: number % 3))
            harness.tell(.withdrawn(ClaimID(number)))
        }
        #expect((harness.arbiter.examinedClaims - before) / 200 < 50)
    }

    /// How many claims are examined beside many holders: when a writer arrives, when it withdraws, and when a holder ends.
    private struct Cost {
        var (coming, going, ending) = (0, 0, 0)
    }

    /// Measures the cost of events while `holders` readers of `processes` processes hold an item, and a writer arrives and
    /// withdraws.
    private static func cost(of holders: UInt64, in processes: UInt64) -> Cost {
        var harness = ArbiterHarness(patient)
        for number in 1...holders {
            harness.tell(
                .claimed(ClaimRequest(ClaimID(number), .handle, ClaimRequest.Part(ItemID(wanted), .read()))))
        }
        var (cost, known) = (Cost(), Set<ClaimID>())
        func spent(_ body: () -> Void) -> Int {
            let before = harness.arbiter.examinedClaims
            body()
            return harness.arbiter.examinedClaims - before
        }
        for number in (holders + 1)...(holders + 10) {
            cost.coming += spent {
                harness.claim(number, .write(.updating), wanted, by: .process(5))
                for case .identify(let id) in harness.effects where known.insert(id).inserted {
                    harness.tell(.identified(id, .process(Int32(100 + id.rawValue % processes))))
                }
            }
            cost.going += spent { harness.tell(.withdrawn(ClaimID(number))) }
        }
        harness.claim(holders + 11, .write(.updating), wanted, by: .process(5))
        for number in 1...10 as ClosedRange<UInt64> {
            cost.ending += spent { harness.tell(.ended(ClaimID(number))) }
        }
        return cost
    }

    /// Rule Y11: an event examines at most four times as many claims beside 10,000 holders as beside 100 holders.
    @Test(arguments: [1, 3, 20_000] as [UInt64])
    func theArbiterExaminesFewClaimsPerEventEvenIfManyClaimsAreHeld(processes: UInt64) {
        let (few, many) = (Self.cost(of: 100, in: processes), Self.cost(of: 10_000, in: processes))
        #expect(many.coming <= 4 * few.coming)
        #expect(many.going <= 4 * few.going)
        #expect(many.ending <= 4 * max(few.ending, 10))
    }

    /// Rule Y11: while a writer waits, the arbiter watches a limited number of holders at the same time.
    ///
    /// When a holder ends, the arbiter begins to watch the next holder. For all holders, the time limit counts from the first
    /// contention.
    @Test func aWaitingWriterMakesTheArbiterWatchALimitedNumberOfHoldersAtATime() {
        var harness = ArbiterHarness(Bounds())
        let most = UInt64(WorkLimits().holders)
        for number in 1...(most + 10) { harness.claim(number, .read(), Self.wanted) }
        harness.claim(1_000, .write(.updating), Self.wanted, by: .process(5))
        func asked() -> [ClaimID] {
            harness.effects.compactMap { if case .identify(let id) = $0 { id } else { nil } }.sorted()
        }
        harness.tell(.withdrawn(ClaimID(1_000)))
        harness.claim(1_001, .write(.updating), Self.wanted)
        #expect(asked() == [ClaimID(1_001)])
        harness.now = harness.now + .seconds(2)
        harness.tell(.ended(ClaimID(7)))
        #expect(asked() == [ClaimID(most + 1)])
        // At the time limit of the first contention all holders are suspended, also the holders that the arbiter did not watch.
        harness.tick(at: Instant(nanoseconds: 0) + Bounds().hold)
        let held = harness.effects.count { if case .suspend(_, .holdExpired) = $0 { true } else { false } }
        #expect(held == Int(most) + 9)
    }

    /// Rules Y4, Y11: a writer is granted after each reader was observed to be idle. Only 64 readers are observed at the same
    /// time. So the writer waits one idle time for every 64 readers.
    @Test(arguments: [(64, 1), (65, 2), (129, 3)] as [(UInt64, UInt64)])
    func aWriterWaitsTheIdleTimeOnceForEach64Readers(readers: UInt64, turns: UInt64) {
        let bounds = Bounds()
        var harness = ArbiterHarness(bounds)
        for number in 1...readers { harness.claim(number, .read(), Self.wanted) }
        harness.claim(1_000, .write(.updating), Self.wanted, by: .process(5))
        while harness.granted.isEmpty, let next = harness.wakes.next {
            harness.tick(at: next)
            for case .observe(let id) in harness.effects where harness.granted.isEmpty {
                harness.tell(.observed(id, .reading(position: 0)))
            }
        }
        let once = bounds.readerIdle.nanoseconds + bounds.firstObservationDelay.nanoseconds
        #expect(harness.granted == [ClaimID(1_000)])
        #expect(harness.now == Instant(nanoseconds: once * turns))
    }

    /// Rule Q5: many claims wait for the program that holds the item. The next claim of this program overtakes all of them.
    @Test func aHoldersProgramOvertakesTheOtherProgramsInALongLockQueue() {
        var harness = Self.manyWaiters(300, of: 3, Self.patient)
        harness.claim(5_000, .write(.updating), Self.wanted, by: .process(10))
        #expect(harness.granted == [ClaimID(5_000)])
    }
}
