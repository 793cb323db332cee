// SPDX-License-Identifier: Apache-2.0
import Arbitration
import ArbitrationSimulation
import Coordination
import Testing

/// Checks that the arbiter stores only records that it needs, and no records after all claims and presenters have ended.
@Suite("Records that the arbiter stores")
struct CleanupTests {
    /// Rule I4: when a claim has ended, the arbiter's indexes of parties do not contain the claim any more, however the claim
    /// arrived and ended.
    @Test func theArbiterStoresNoRecordsOfEndedClaims() {
        var harness = ArbiterHarness()
        let parties = [
            Party.process(100), .process(101, below: 100), .process(200, below: 1),
            .process(300, purpose: "a"),
        ]
        for (index, party) in parties.enumerated() {
            harness.claim(UInt64(index), .write(.updating), 1, by: party, as: index == 3 ? .aware : .handle)
        }
        harness.tell(.withdrawn(ClaimID(2)))
        for index in parties.indices { harness.tell(.ended(ClaimID(UInt64(index)))) }
        harness.tick(at: Instant(nanoseconds: 0) + Bounds().wait)
        harness.tick(at: harness.now + Bounds().wait)
        #expect(harness.arbiter.isAtRest)
        #expect(harness.arbiter.remembered == 0)
    }

    /// Rule I5: after a presenter is removed, the arbiter stores no record of the presenter.
    @Test func theArbiterStoresNoRecordsOfRemovedPresenters() {
        var harness = ArbiterHarness()
        harness.tell(.placed(ItemID(1), DirectoryInfo(in: nil)))
        harness.tell(.placed(ItemID(2), DirectoryInfo(in: ItemID(1), isPackage: true)))
        harness.present(1, 2, in: 1, by: .process(50))
        harness.present(2, 20, in: 2, by: .process(51))
        harness.present(3, nil, by: .process(52))
        harness.claim(1, .read(), 20, in: 2, by: .process(100))
        #expect(!harness.asked.isEmpty)
        harness.tell(.shown(PresenterID(3), ItemID(21), at: Place(in: ItemID(2))))
        for number in 1...3 as ClosedRange<UInt64> { harness.tell(.removed(PresenterID(number))) }
        harness.tell(.ended(ClaimID(1)))
        for item in [2, 1] as [UInt64] { harness.tell(.forgotten(ItemID(item))) }
        harness.tick(at: harness.now + Bounds().wait)
        #expect(harness.arbiter.isAtRest)
        #expect(harness.arbiter.remembered == 0)
    }

    /// Rule P12: the arbiter marks at most 4096 files as preserved for a silent presenter. Each write of any further file
    /// preserves the file's contents.
    @Test func theArbiterStoresALimitedNumberOfFilesForASilentPresenter() {
        let most = 4096 as UInt64
        var bounds = Bounds()
        (bounds.relinquish, bounds.excused) = (.milliseconds(1), .seconds(3600))
        var harness = ArbiterHarness(bounds)
        harness.tell(.placed(ItemID(1), DirectoryInfo(in: nil, isPackage: true)))
        harness.present(1, 1, by: .process(50))
        var claims = 0 as UInt64
        func writes(_ file: UInt64) -> Bool {
            claims += 1
            harness.claim(claims, .write(.updating), file, in: 1, by: .process(100))
            // The presenter is asked only for the first file. It does not answer within 1 ms, so it forfeits the question.
            if harness.granted.isEmpty { harness.tick(at: harness.now + .milliseconds(1)) }
            let isListed = harness.effects.contains {
                if case .grant(_, let grant) = $0 { !grant.unanswered.isEmpty } else { false }
            }
            harness.tell(
                .changed(
                    ItemID(file), at: Place(in: ItemID(1)), Cause(.process(100), .write(.updating)),
                    under: ClaimID(claims), stamp: claims))
            harness.tell(.ended(ClaimID(claims)))
            return isListed
        }
        for file in 10..<(10 + most) { #expect(writes(file)) }
        #expect(!writes(10))
        #expect(!writes(9 + most))
        #expect(writes(10 + most))
        #expect(writes(10))
    }

    /// Rule I4: no record remains of a claim that ended before its identification, or of a claim that waited within an access.
    @Test func theArbiterStoresNoRecordsOfWithdrawnClaims() {
        var harness = ArbiterHarness()
        harness.present(1, 1, by: .process(50))
        harness.claim(1, .write(.updating), 1)
        harness.tell(.withdrawn(ClaimID(1)))
        harness.tell(.removed(PresenterID(1)))
        harness.claim(2, .write(.updating), 2, as: .aware)
        var nested = ClaimRequest(ClaimID(3), .aware, ClaimRequest.Part(ItemID(2), .write(.updating)))
        nested.within = [ClaimID(2)]
        harness.tell(.claimed(nested))
        harness.tell(.withdrawn(ClaimID(3)))
        harness.tell(.ended(ClaimID(2)))
        harness.tick(at: Instant(nanoseconds: 0) + Bounds().holdAware)
        #expect(harness.arbiter.isAtRest)
        #expect(harness.arbiter.remembered == 0)
    }

    /// Rule I4: while a program holds a claim, its next claim could be part of a deadlock. When the next claim has ended, the
    /// arbiter stores no record of that claim.
    @Test func theArbiterStoresNoRecordOfAPossibleDeadlockAfterItsClaimsEnd() {
        var harness = ArbiterHarness()
        harness.claim(1, .write(.updating), 1, by: .process(100))
        harness.claim(2, .write(.updating), 2, by: .process(200))
        harness.claim(3, .write(.updating), 2, by: .process(100))
        #expect(harness.arbiter.blocker(of: ClaimID(3)) == ClaimID(2))
        for number in [3, 2, 1] as [UInt64] { harness.tell(.ended(ClaimID(number))) }
        harness.tick(at: Instant(nanoseconds: 0) + Bounds().wait)
        #expect(harness.arbiter.isAtRest)
        #expect(harness.arbiter.remembered == 0)
    }

    /// Rules I4, B1: no record remains of a batch, which is a claim that asks presenters but locks no item. No record remains
    /// of claims that were made to answer a question, even if several claims were made for one question.
    @Test func theArbiterStoresNoRecordsOfEndedClaimsThatWereMadeToAnswerAQuestion() {
        var harness = ArbiterHarness()
        harness.present(1, 1, by: .process(50))
        harness.claim(1, .write(.updating), 1, by: .process(100, purpose: "a"), as: .batch)
        let question = harness.asked[0]
        for number in 2...3 as ClosedRange<UInt64> {
            var save = ClaimRequest(
                ClaimID(number), .aware, ClaimRequest.Part(ItemID(number), .write(.updating)))
            save.answering = question
            harness.tell(.claimed(save))
        }
        for number in [2, 3, 1] as [UInt64] { harness.tell(.ended(ClaimID(number))) }
        harness.tell(.removed(PresenterID(1)))
        harness.tick(at: Instant(nanoseconds: 0) + Bounds().wait)
        #expect(harness.arbiter.isAtRest)
        #expect(harness.arbiter.remembered == 0)
    }

    /// Rule T3: the arbiter drops timers of ended claims before too many exist, and the timers of other claims still fire on
    /// time.
    @Test func theArbiterDropsTimersOfEndedClaims() {
        var harness = ArbiterHarness()
        harness.claim(1, .write(.updating), 1)
        // Claim 2 waits throughout the test. If no claim waited, all timers would come due and be dropped.
        harness.claim(2, .write(.updating), 1)
        var most = 0
        for number in 3...2_000 as ClosedRange<UInt64> {
            harness.now = harness.now + .milliseconds(1)
            harness.claim(number, .write(.updating), 1)
            harness.tell(.withdrawn(ClaimID(number)))
            most = max(most, harness.arbiter.remembered)
        }
        #expect(most < 100, "\(most) records of one claim at a time")
    }

    /// Rule T3: a requested wake cannot be cancelled, so the arbiter must not request a wake for one time twice.
    @Test func theArbiterNeverRequestsTwoWakeUpsForTheSameTime() {
        var harness = ArbiterHarness()
        // Claim 2 waits for an aware access, so it needs no wake before its time limit.
        harness.claim(1, .write(.updating), 1, as: .aware)
        harness.claim(2, .read(), 1)
        var most = 0
        for round in 1...200 as ClosedRange<UInt64> {
            let (holder, blockedClaim) = (2 * round + 1, 2 * round + 2)
            // The blocked claim needs a wake for the first observation of the holder. Both claims end before this wake.
            harness.claim(holder, .write(.updating), 2)
            harness.claim(blockedClaim, .read(), 2)
            for number in [holder, blockedClaim] { harness.tell(.ended(ClaimID(number))) }
            most = max(most, harness.wakes.count)
            if let wake = harness.wakes.next { harness.tick(at: wake) }
        }
        #expect(most <= 2, "\(most) wakes for one deadline and one look at a time")
        while harness.granted.isEmpty, let wake = harness.wakes.next { harness.tick(at: wake) }
        #expect(harness.granted == [ClaimID(2)])
        #expect(harness.now == Instant(nanoseconds: 0) + Bounds().wait)
    }

    /// Rules T3, P4: after the arbiter has dropped some timers, each other question is still forfeited exactly at its deadline.
    @Test func questionsAreForfeitedAtTheirDeadlinesAfterOtherTimersWereDropped() {
        var bounds = Bounds()
        (bounds.relinquish, bounds.save, bounds.deletion) = (.seconds(50), .seconds(20), .seconds(5))
        (bounds.wait, bounds.askAgain) = (.seconds(100), .zero)
        // The kinds of questions alternate, so the order of the deadlines differs from the order in which the questions were
        // asked.
        let kinds: [(PresenterMessages, Access)] = [
            (.save, .read()), (.accommodateDeletion, .write(.forDeleting)), (.relinquishToReader, .read()),
            (.accommodateDeletion, .write(.forDeleting)),
        ]
        var harness = ArbiterHarness(bounds)
        var open: [Question] = []
        for number in 1...300 as ClosedRange<UInt64> {
            harness.now = harness.now + .milliseconds(1)
            let (messages, access) = kinds[Int(number * number / 3) % kinds.count]
            harness.present(number, number, by: .process(Int32(number)), messages)
            harness.claim(number, access, number, by: .process(Int32(1_000 + number)))
            open += harness.effects.compactMap { if case .ask(let question) = $0 { question } else { nil } }
        }
        #expect(open.count == 300)
        let left = open.filter { $0.id.rawValue * $0.id.rawValue % 11 == 3 }
        for question in open where !left.contains(question) {
            harness.tell(.answered(question.id, by: question.presenter, .done))
            harness.tell(.ended(ClaimID(question.presenter.rawValue)))
        }
        // After 200 ms the access sessions of the ended claims have ended, and most timers have no purpose any more.
        harness.tick(at: harness.now + .milliseconds(200))
        var forfeited: [QuestionID] = []
        while let wake = harness.wakes.next {
            harness.tick(at: wake)
            for case .forfeit(let question, _) in harness.effects {
                #expect(question.deadline == harness.now)
                forfeited.append(question.id)
            }
        }
        #expect(left.count > 20 && Set(forfeited) == Set(left.map(\.id)))
    }

    /// Rule T4: if an event has an earlier time than the last event, the arbiter uses the last event's time.
    @Test func anEventTimedBeforeThePreviousEventCountsAsSimultaneousWithIt() {
        var harness = ArbiterHarness()
        harness.now = Instant(nanoseconds: 0) + .seconds(100)
        harness.claim(1, .write(.updating), 1, as: .aware)
        harness.now = Instant(nanoseconds: 0) + .seconds(50)
        harness.claim(2, .read(), 1)
        #expect(harness.wake == Instant(nanoseconds: 0) + .seconds(100) + Bounds().wait)
    }
}
