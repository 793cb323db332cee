// SPDX-License-Identifier: Apache-2.0
import Arbitration
import ArbitrationSimulation
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

    /// Rule P12: so many files of a silent presenter are remembered to have been kept, and then each is kept once more.
    @Test func marksOfASilentPresenterAreBounded() {
        let most = 4096 as UInt64
        var bounds = Bounds()
        (bounds.relinquish, bounds.excused) = (.milliseconds(1), .seconds(3600))
        var talk = Conversation(bounds)
        talk.tell(.placed(ItemID(1), Directory(in: nil, isPackage: true)))
        talk.present(1, 1, by: .process(50))
        var claims = 0 as UInt64
        func writes(_ file: UInt64) -> Bool {
            claims += 1
            talk.claim(claims, .write(.updating), file, in: 1, by: .process(100))
            // The first is asked about, and forfeited.
            if talk.granted.isEmpty { talk.tick(at: talk.now + .milliseconds(1)) }
            let isListed = talk.effects.contains {
                if case .grant(_, let grant) = $0 { !grant.unanswered.isEmpty } else { false }
            }
            talk.tell(
                .changed(
                    ItemID(file), at: Place(in: ItemID(1)), Cause(.process(100), .write(.updating)),
                    under: ClaimID(claims), stamp: claims))
            talk.tell(.ended(ClaimID(claims)))
            return isListed
        }
        for file in 10..<(10 + most) { #expect(writes(file)) }
        #expect(!writes(10))
        #expect(!writes(9 + most))
        #expect(writes(10 + most))
        #expect(writes(10))
    }

    /// Rule I4: those who leave before anybody knew them leave nothing behind, nor do those who waited within an access.
    @Test func nothingIsLeftOfThoseWhoWithdraw() {
        var talk = Conversation()
        talk.present(1, 1, by: .process(50))
        talk.claim(1, .write(.updating), 1)
        talk.tell(.withdrawn(ClaimID(1)))
        talk.tell(.removed(PresenterID(1)))
        talk.claim(2, .write(.updating), 2, as: .aware)
        var nested = Request(ClaimID(3), .aware, Request.Part(ItemID(2), .write(.updating)))
        nested.within = [ClaimID(2)]
        talk.tell(.claimed(nested))
        talk.tell(.withdrawn(ClaimID(3)))
        talk.tell(.ended(ClaimID(2)))
        talk.tick(at: Instant(nanoseconds: 0) + Bounds().holdAware)
        #expect(talk.arbiter.isAtRest)
        #expect(talk.arbiter.remembered == 0)
    }

    /// Rule I4: nothing is left of who waited while its program held something, and so might have been in a cycle.
    @Test func nothingIsLeftOfThoseWhoMightHaveBeenInACycle() {
        var talk = Conversation()
        talk.claim(1, .write(.updating), 1, by: .process(100))
        talk.claim(2, .write(.updating), 2, by: .process(200))
        talk.claim(3, .write(.updating), 2, by: .process(100))
        #expect(talk.arbiter.obstacle(of: ClaimID(3)) == ClaimID(2))
        for number in [3, 2, 1] as [UInt64] { talk.tell(.ended(ClaimID(number))) }
        talk.tick(at: Instant(nanoseconds: 0) + Bounds().wait)
        #expect(talk.arbiter.isAtRest)
        #expect(talk.arbiter.remembered == 0)
    }

    /// Rules I4, B1: nothing is left of batches and of claims made to answer, of which there may be several.
    @Test func nothingIsLeftOfBatchesAndAnswers() {
        var talk = Conversation()
        talk.present(1, 1, by: .process(50))
        talk.claim(1, .write(.updating), 1, by: .process(100, purpose: "a"), as: .batch)
        let question = talk.asked[0]
        for number in 2...3 as ClosedRange<UInt64> {
            var save = Request(ClaimID(number), .aware, Request.Part(ItemID(number), .write(.updating)))
            save.answering = question
            talk.tell(.claimed(save))
        }
        for number in [2, 3, 1] as [UInt64] { talk.tell(.ended(ClaimID(number))) }
        talk.tell(.removed(PresenterID(1)))
        talk.tick(at: Instant(nanoseconds: 0) + Bounds().wait)
        #expect(talk.arbiter.isAtRest)
        #expect(talk.arbiter.remembered == 0)
    }

    /// Rule T3: alarms of those who have gone do not pile up, and those of the others come when they should.
    @Test func alarmsOfThoseWhoHaveGoneDoNotPileUp() {
        var talk = Conversation()
        talk.claim(1, .write(.updating), 1)
        // Somebody goes on waiting, or all that is stale would come up and be dropped.
        talk.claim(2, .write(.updating), 1)
        var most = 0
        for number in 3...2_000 as ClosedRange<UInt64> {
            talk.now = talk.now + .milliseconds(1)
            talk.claim(number, .write(.updating), 1)
            talk.tell(.withdrawn(ClaimID(number)))
            most = max(most, talk.arbiter.remembered)
        }
        #expect(most < 100, "\(most) records of one claim at a time")
    }

    /// Rule T3: nobody takes back what was asked for, so it must not be asked for again and again.
    @Test func wakesDoNotPileUp() {
        var talk = Conversation()
        // Who waits for an aware access needs nothing before its deadline.
        talk.claim(1, .write(.updating), 1, as: .aware)
        talk.claim(2, .read(), 1)
        var most = 0
        for round in 1...200 as ClosedRange<UInt64> {
            let (holder, contestant) = (2 * round + 1, 2 * round + 2)
            // A first look is needed earlier; when its moment has come, all is over.
            talk.claim(holder, .write(.updating), 2)
            talk.claim(contestant, .read(), 2)
            for number in [holder, contestant] { talk.tell(.ended(ClaimID(number))) }
            most = max(most, talk.wakes.count)
            if let wake = talk.wakes.next { talk.tick(at: wake) }
        }
        #expect(most <= 2, "\(most) wakes for one deadline and one look at a time")
        while talk.granted.isEmpty, let wake = talk.wakes.next { talk.tick(at: wake) }
        #expect(talk.granted == [ClaimID(2)])
        #expect(talk.now == Instant(nanoseconds: 0) + Bounds().wait)
    }

    /// Rules T3, P4: whatever was dropped between them, each request's time runs out when it should.
    @Test func timeRunsOutInItsOrderWhenMostHaveGone() {
        var bounds = Bounds()
        (bounds.relinquish, bounds.save, bounds.deletion) = (.seconds(50), .seconds(20), .seconds(5))
        (bounds.wait, bounds.askAgain) = (.seconds(100), .zero)
        // Of each kind some in turn, so that the alarms come in no order.
        let kinds: [(PresenterMessages, Access)] = [
            (.save, .read()), (.accommodateDeletion, .write(.forDeleting)), (.relinquishToReader, .read()),
            (.accommodateDeletion, .write(.forDeleting)),
        ]
        var talk = Conversation(bounds)
        var open: [Question] = []
        for number in 1...300 as ClosedRange<UInt64> {
            talk.now = talk.now + .milliseconds(1)
            let (messages, access) = kinds[Int(number * number / 3) % kinds.count]
            talk.present(number, number, by: .process(Int32(number)), messages)
            talk.claim(number, access, number, by: .process(Int32(1_000 + number)))
            open += talk.effects.compactMap { if case .ask(let question) = $0 { question } else { nil } }
        }
        #expect(open.count == 300)
        let left = open.filter { $0.id.rawValue * $0.id.rawValue % 11 == 3 }
        for question in open where !left.contains(question) {
            talk.tell(.answered(question.id, by: question.presenter, .done))
            talk.tell(.ended(ClaimID(question.presenter.rawValue)))
        }
        // When the turns of those who have gone are over, most of the alarms are of nobody.
        talk.tick(at: talk.now + .milliseconds(200))
        var forfeited: [QuestionID] = []
        while let wake = talk.wakes.next {
            talk.tick(at: wake)
            for case .forfeit(let question, _) in talk.effects {
                #expect(question.deadline == talk.now)
                forfeited.append(question.id)
            }
        }
        #expect(left.count > 20 && Set(forfeited) == Set(left.map(\.id)))
    }

    /// Rule T4: a moment that lies before the last one counts as that one.
    @Test func timeNeverRunsBackwards() {
        var talk = Conversation()
        talk.now = Instant(nanoseconds: 0) + .seconds(100)
        talk.claim(1, .write(.updating), 1, as: .aware)
        talk.now = Instant(nanoseconds: 0) + .seconds(50)
        talk.claim(2, .read(), 1)
        #expect(talk.wake == Instant(nanoseconds: 0) + .seconds(100) + Bounds().wait)
    }
}
