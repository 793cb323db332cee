// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import Synchronization
import Testing

import func TestSupport.eventually

/// Checks the engine's messages to presenters: for requests to prepare accesses, for directories, and for presenters of an item
/// that does not exist yet.
@Suite struct PresenterDeliveryTests {
    private static let write = Access.write(.updating)

    @Test(
        "a request to prepare accesses blocks no claim, and is granted when the asked presenters have answered"
    )
    func aRequestToPrepareAccessesIsGrantedAfterTheAnswers() throws {
        let stage = try EngineHarness()
        let mailbox = Mailbox {}
        let (presenter, _) = stage.present(1, by: StandInClaimant("nvim", 640), in: mailbox)
        let sync = StandInClaimant("sync", 31, purpose: "1")
        let batch = stage.claim(.batch, (Self.write, 1), (.read(), 2), by: sync)
        #expect(!sync.isGranted)
        let reasons = stage.reasons(of: batch)
        #expect(reasons.count == 1)
        #expect(
            reasons.first?.hasPrefix("sync (31) waits for nvim (640) to relinquish file1, asked 0.") == true)
        // A request to prepare accesses holds no item, so this claim does not wait for the request.
        let cat = StandInClaimant("cat", 32)
        let read = stage.claim(.handle, (.read(), 2), by: cat)
        #expect(cat.isGranted)
        let questions = mailbox.take().compactMap { message -> QuestionID? in
            guard case .request(let question, .relinquishToWriter, nil, _) = message.content else {
                return nil
            }
            return question
        }
        try #require(questions.count == 1)
        stage.engine.answer(questions[0], of: presenter, .done)
        #expect(sync.isGranted)
        for claim in [batch, read] { stage.engine.end(claim) }
        stage.engine.remove(presenter)
    }

    @Test(
        "presenters that are removed together consent to the access, get no more messages and release their items"
    )
    func presentersThatAreRemovedTogetherConsentToTheAccessOfTheirQuestion() throws {
        let stage = try EngineHarness()
        let mailbox = Mailbox {}
        let shown = (0..<200).map { _ in stage.present(1, by: StandInClaimant("nvim", 640), in: mailbox) }
        let other = stage.present(2, by: StandInClaimant("vim", 641), in: mailbox)
        let cat = StandInClaimant("cat", 32)
        let read = stage.claim(.handle, (.read(), 1), by: cat)
        #expect(!cat.isGranted)
        _ = mailbox.take()
        stage.engine.remove(shown.map(\.0))
        #expect(cat.isGranted)
        #expect(mailbox.take().isEmpty)
        #expect(shown.allSatisfy { $0.1.releases == 1 })
        #expect(!stage.engine.isPresented(ItemID(1)) && stage.engine.isPresented(ItemID(2)))
        stage.engine.end(read)
        stage.engine.remove(other.0)
        #expect(other.1.releases == 1)
    }

    @Test("a failed attempt to get a claim without waiting leaves no claim and asks no presenter")
    func aFailedAttemptToGetAClaimWithoutWaitingLeavesNoClaim() throws {
        let stage = try EngineHarness()
        let mailbox = Mailbox {}
        let (presenter, _) = stage.present(1, by: StandInClaimant("nvim", 640), in: mailbox)
        let held = stage.claim(.handle, (Self.write, 2), by: StandInClaimant("tar", 30))
        let writer = StandInClaimant("logger", 31)
        func claim(_ item: UInt64) -> (isGranted: Bool, claim: ClaimID) {
            writer.set([(Self.write, item)])
            let request = ClaimRequest(stage.engine.makeClaimID(), .handle, .init(ItemID(item), Self.write))
            return (stage.engine.tryClaim(request, by: writer), request.claim)
        }
        for item: UInt64 in [1, 2] {
            let (isGranted, id) = claim(item)
            #expect(!isGranted, "file\(item)")
            #expect(!stage.engine.isGranted(id))
            #expect(stage.engine.claimant(of: id) == nil)
        }
        #expect(mailbox.take().isEmpty)
        #expect(stage.engine.snapshot(of: nil).claims.map(\.claim) == [held])
        let (isGranted, id) = claim(3)
        #expect(isGranted && stage.engine.isGranted(id))
        // The attempts that failed have left no claim that could block this later claim.
        stage.engine.end(held)
        let cat = StandInClaimant("cat", 32)
        let read = stage.claim(.handle, (.read(), 2), by: cat)
        #expect(cat.isGranted)
        for claim in [id, read] { stage.engine.end(claim) }
        stage.engine.remove(presenter)
    }

    @Test("an attempt to get a claim without waiting has a correct result while another thread ends a claim")
    func anAttemptToGetAClaimWhileAnotherClaimEndsHasACorrectResult() throws {
        let stage = try EngineHarness()
        let held = stage.claim(.aware, (Self.write, 1), by: StandInClaimant("sync", 30, purpose: "1"))
        let next = StandInClaimant("cat", 31)
        let read = stage.claim(.handle, (.read(), 1), by: next)
        let writer = StandInClaimant("logger", 32)
        writer.set([(Self.write, 2)])
        let ending = stage.engine.endWithoutBlocking(held)
        let request = ClaimRequest(stage.engine.makeClaimID(), .handle, .init(ItemID(2), Self.write))
        let isGranted = stage.engine.tryClaim(request, by: writer)
        stage.engine.finish(ending)
        #expect(next.isGranted)
        #expect(isGranted == stage.engine.isGranted(request.claim))
        for claim in [request.claim, read] { stage.engine.end(claim) }
        // The claims of the test have ended, so this claim does not wait.
        let last = StandInClaimant("tar", 33)
        stage.engine.end(stage.claim(.handle, (Self.write, 2), by: last))
        #expect(last.isGranted)
    }

    @Test(
        "a claim is granted if the presenter answers before the call that makes the claim returns")
    func aClaimIsGrantedIfThePresenterAnswersImmediately() throws {
        let stage = try EngineHarness()
        let answering = Mutex<(mailbox: Mailbox?, presenter: PresenterID?)>((nil, nil))
        // The presenter answers on the thread that makes the claim, so the answer always comes before the call returns.
        let mailbox = Mailbox {
            let (mailbox, presenter) = answering.withLock { $0 }
            for case .request(let question, _, _, _) in mailbox?.take().map(\.content) ?? [] {
                presenter.map { stage.engine.answer(question, of: $0, .done) }
            }
        }
        let (presenter, _) = stage.present(1, by: StandInClaimant("nvim", 640), in: mailbox)
        answering.withLock { $0 = (mailbox, presenter) }
        let cat = StandInClaimant("cat", 32)
        let request = ClaimRequest(
            stage.engine.makeClaimID(), .handle, .init(ItemID(1), .read(), at: Place()))
        cat.set([(.read(), 1)])
        guard case .granted(let grant) = stage.engine.claim(request, by: cat) else {
            Issue.record("it waits")
            return
        }
        #expect(grant.basis == .waited)
        stage.engine.end(request.claim)
        stage.engine.remove(presenter)
        answering.withLock { $0 = (nil, nil) }
    }

    @Test("a directory's presenter gets a notice of a new file at any depth, with its name at that time")
    func aDirectoryPresenterGetsFilesWithTheirNames() throws {
        var bounds = Bounds()
        bounds.trailing = .milliseconds(1)
        bounds.steps = .milliseconds(1)
        let stage = try EngineHarness(bounds)
        stage.engine.place(ItemID(50), DirectoryInfo(in: nil))
        stage.engine.place(ItemID(51), DirectoryInfo(in: ItemID(50)))
        let mailbox = Mailbox {}
        let (presenter, _) = stage.present(50, by: StandInClaimant("files", 640), in: mailbox)
        let place = Place(in: ItemID(51), link: LinkID(7))
        #expect(stage.engine.hasInterestedPresenter(of: ItemID(1), at: place))
        #expect(!stage.engine.hasInterestedPresenter(of: ItemID(1), at: Place()))
        stage.engine.noteCreation(of: ItemID(1), at: place, by: StandInClaimant("cp", 31).party)
        var messages: [PresenterMessage] = []
        try eventually(within: .seconds(10), "the end of the turn") {
            messages += mailbox.take()
            return !messages.isEmpty
        }
        try #require(messages.count == 1)
        guard case .notice(.subitemDidAppear, let subitem?) = messages[0].content else {
            Issue.record("\(messages[0].content)")
            return
        }
        #expect(subitem == Notice.Subitem(ItemID(1), at: place))
        stage.engine.remove(presenter)
        stage.engine.forget(ItemID(51))
        stage.engine.forget(ItemID(50))
    }

    @Test("a presenter without an item gets no question until an item is given to it")
    func aPresenterWithoutAnItemGetsNoQuestion() throws {
        let stage = try EngineHarness()
        let (mailbox, nvim) = (Mailbox {}, StandInClaimant("nvim", 640))
        let presenter = stage.engine.present(nil, by: nvim.party, implementing: .all, in: mailbox)
        let cat = StandInClaimant("cat", 32)
        stage.engine.end(stage.claim(.handle, (.read(), 1), by: cat))
        #expect(mailbox.take().isEmpty)
        let document = StandInDocument(ItemID(1))
        stage.engine.show(document, by: presenter)
        #expect(stage.engine.isPresented(ItemID(1)))
        let claim = stage.claim(.handle, (.read(), 1), by: StandInClaimant("cat", 33))
        #expect(mailbox.take().count == 1)
        stage.engine.end(claim)
        stage.engine.remove(presenter)
        #expect(document.releases == 1)
        // This document is given to the engine for a presenter that was already removed. So the document must be released.
        let late = StandInDocument(ItemID(1))
        stage.engine.show(late, by: presenter)
        #expect(late.releases == 1)
        #expect(!stage.engine.isPresented(ItemID(1)))
    }
}
