// SPDX-License-Identifier: Apache-2.0
import Arbitration
import Coordination
import Testing

/// Rules N14 and N15: a paused presenter gets no notices of names in its folder, and a muted presenter gets no messages at all.
@Suite("Paused and muted presenters")
struct SuppressionTests {
    private static let writer = Party.process(100)

    /// A folder 10 with a package 11 in it. Two programs present the folder, and a third program presents the package.
    private static func world() -> ArbiterHarness {
        var harness = ArbiterHarness()
        harness.tell(.placed(ItemID(10), DirectoryInfo(in: nil)))
        harness.tell(.placed(ItemID(11), DirectoryInfo(in: ItemID(10), isPackage: true)))
        harness.present(1, 10, by: .process(50))
        harness.present(2, 10, by: .process(51))
        harness.present(3, 11, in: 10, by: .process(52))
        return harness
    }

    /// Makes a file, waits until its access session has ended, and returns the notices.
    private static func make(
        _ item: UInt64, in directory: UInt64, _ harness: inout ArbiterHarness
    ) -> [Notice] {
        harness.tell(.created(ItemID(item), at: Place(in: ItemID(directory)), by: writer, under: nil))
        harness.tick(at: harness.now + .seconds(20))
        return told(harness)
    }

    private static func told(_ harness: ArbiterHarness) -> [Notice] {
        harness.effects.compactMap { if case .tell(let notice) = $0 { notice } else { nil } }
    }

    @Test("a paused presenter gets no names, and after the pause one notice that names may have changed")
    func aPausedPresenterGetsOneNoticeAfterThePause() {
        var harness = Self.world()
        harness.tell(.paused([PresenterID(1)]))
        #expect(Self.make(20, in: 10, &harness).map(\.presenter) == [PresenterID(2)])
        #expect(Self.make(21, in: 10, &harness).map(\.presenter) == [PresenterID(2)])
        harness.tell(.resumed([PresenterID(1)], behind: [], told: []))
        let gaps = Self.told(harness)
        #expect(gaps.map(\.presenter) == [PresenterID(1)])
        #expect(gaps.map(\.kind) == [.subitemDidChange] && gaps[0].subitem == nil)
        #expect(Self.make(22, in: 10, &harness).map(\.presenter) == [PresenterID(1), PresenterID(2)])
    }

    @Test("after a pause, only presenters that missed names get a notice that they missed names")
    func onlyPresentersThatMissedNamesGetANoticeAfterAPause() {
        var harness = Self.world()
        harness.tell(.paused([PresenterID(1), PresenterID(2)]))
        harness.tell(.resumed([PresenterID(1), PresenterID(2)], behind: [PresenterID(2)], told: []))
        #expect(Self.told(harness).map(\.presenter) == [PresenterID(2)])
        harness.tell(.paused([PresenterID(1), PresenterID(2)]))
        _ = Self.make(20, in: 10, &harness)
        harness.tell(.resumed([PresenterID(1), PresenterID(2)], behind: [], told: [PresenterID(2)]))
        #expect(Self.told(harness).map(\.presenter) == [PresenterID(1)])
    }

    @Test(
        "a paused presenter gets one notice that it missed names, instead of the names that were not yet sent"
    )
    func aPausedPresenterGetsOneNoticeInsteadOfTheNamesThatWereNotYetSent() {
        var harness = Self.world()
        harness.tell(.created(ItemID(20), at: Place(in: ItemID(10)), by: Self.writer, under: nil))
        harness.tell(.paused([PresenterID(1)]))
        harness.tick(at: harness.now + .seconds(20))
        #expect(Self.told(harness).map(\.presenter) == [PresenterID(2)])
        harness.tell(.resumed([PresenterID(1)], behind: [], told: []))
        #expect(Self.told(harness).map(\.presenter) == [PresenterID(1)])
    }

    @Test("a paused presenter still gets changes in its package, and moves of its own item")
    func aPausedPresenterGetsMovesAndPackageChanges() {
        var harness = Self.world()
        harness.tell(.paused([PresenterID(1), PresenterID(3)]))
        #expect(Self.make(20, in: 11, &harness).map(\.presenter).contains(PresenterID(3)))
        let move = Move(from: Place(), to: Place(in: ItemID(12)))
        harness.tell(.moved(ItemID(10), move, by: Self.writer, under: nil))
        harness.tick(at: harness.now + .seconds(20))
        let moved = Self.told(harness).filter { $0.kind == .didMove }.map(\.presenter)
        #expect(Set(moved) == [PresenterID(1), PresenterID(2), PresenterID(3)])
    }

    /// Rule N15: a muted presenter gets no question and no notice until it is unmuted.
    @Test(
        "a muted presenter is not asked, and gets one notice of missed changes at the end")
    func aMutedPresenterIsNotAskedAndGetsOneNotice() {
        var harness = ArbiterHarness()
        for number in 1...3 as ClosedRange<UInt64> {
            harness.present(number, 1, by: .process(Int32(50 + number)))
        }
        harness.tell(.muted([PresenterID(1), PresenterID(2)]))
        harness.claim(1, .write(.updating), 1, by: Self.writer)
        #expect(harness.asked.count == 1)
        harness.tell(.answered(QuestionID(1), by: PresenterID(3), .done))
        // The grant lists only the first muted presenter. This is enough, because the contents are preserved once for all of
        // them.
        #expect(
            harness.effects.contains {
                if case .grant(ClaimID(1), let grant) = $0 {
                    grant.unanswered == [PresenterID(1)]
                } else {
                    false
                }
            })
        let cause = Cause(Self.writer, .write(.updating))
        harness.tell(.changed(ItemID(1), at: Place(), cause, under: ClaimID(1), stamp: 1))
        harness.tell(.ended(ClaimID(1)))
        harness.tick(at: harness.now + .seconds(20))
        #expect(Set(Self.told(harness).map(\.presenter)) == [PresenterID(3)])
        harness.tell(.unmuted([PresenterID(1), PresenterID(2)]))
        #expect(Self.told(harness).map(\.presenter) == [PresenterID(1), PresenterID(2)])
        #expect(Self.told(harness).map(\.kind) == [.didChange, .didChange])
        // If a presenter missed no change while it was muted, it gets no notice when it is unmuted. But it gets questions after
        // it is unmuted.
        harness.tell(.muted([PresenterID(1)]))
        harness.tell(.unmuted([PresenterID(1)]))
        #expect(Self.told(harness).isEmpty)
        harness.claim(2, .write(.updating), 1, by: .process(101))
        #expect(harness.asked.count == 3)
    }

    private static func unanswered(_ claim: UInt64, _ harness: ArbiterHarness) -> [PresenterID]? {
        harness.effects.compactMap { effect in
            if case .grant(ClaimID(claim), let grant) = effect { grant.unanswered } else { nil }
        }.first
    }

    /// Rules N15, P12: a write preserves nothing for a muted presenter that implements only notices, and nothing for a muted
    /// presenter of the writing program.
    @Test(
        "a write preserves the contents for a muted presenter that may have unsaved work"
    )
    func aWritePreservesTheContentsForAMutedPresenter() {
        var harness = ArbiterHarness()
        harness.present(1, 1, by: .process(50), [.didChange, .relinquishToReader])
        for number in 2...4 as ClosedRange<UInt64> {
            harness.present(number, 1, by: .process(Int32(50 + number)), [.relinquishToWriter])
        }
        harness.tell(.muted((1...4).map { PresenterID($0) }))
        harness.claim(1, .write(.updating), 1, by: Self.writer)
        #expect(Self.unanswered(1, harness) == [PresenterID(2)])
        harness.tell(.ended(ClaimID(1)))
        // Process 90 is a child of process 52, the program of presenter 2. So presenter 2 is not listed.
        harness.claim(2, .write(.updating), 1, by: .process(90, below: 52))
        #expect(Self.unanswered(2, harness) == [PresenterID(3)])
        let cause = Cause(Self.writer, .write(.updating))
        harness.tell(.changed(ItemID(1), at: Place(), cause, under: ClaimID(2), stamp: 1))
        harness.tell(.ended(ClaimID(2)))
        // For presenter 3, the contents were preserved before claim 2 changed them. So claim 3 need not preserve the contents
        // for presenter 3.
        harness.claim(3, .write(.updating), 1, by: .process(52))
        #expect(Self.unanswered(3, harness) == [])
        harness.tell(.ended(ClaimID(3)))
        harness.tell(.removed(PresenterID(2)))
        harness.tell(.unmuted([PresenterID(3)]))
        harness.claim(4, .write(.updating), 1, by: Self.writer)
        harness.tell(.answered(QuestionID(1), by: PresenterID(3), .done))
        #expect(Self.unanswered(4, harness) == [PresenterID(4)])
    }

    /// Rules N15, P12, P19: a presenter of one hard link presents only this name. If the name is deleted, the contents are
    /// preserved for this presenter, although it is muted.
    @Test("the deletion of a hard link preserves the contents for the muted presenter of this link")
    func theDeletionOfAHardLinkPreservesTheContentsForTheLinksMutedPresenter() {
        var harness = ArbiterHarness()
        let (one, other) = (Place(in: ItemID(10), link: LinkID(1)), Place(in: ItemID(10), link: LinkID(2)))
        for (number, place) in [(1, one), (2, other)] as [(UInt64, Place)] {
            harness.tell(
                .presented(
                    Presenter(
                        PresenterID(number), of: ItemID(1), at: place, by: .process(Int32(number)), .all))
            )
        }
        harness.tell(.muted([PresenterID(1), PresenterID(2)]))
        let part = ClaimRequest.Part(ItemID(1), .write(.forDeleting), at: other)
        harness.tell(.claimed(ClaimRequest(ClaimID(1), .nameChange, part)))
        harness.tell(.identified(ClaimID(1), Self.writer))
        #expect(Self.unanswered(1, harness) == [PresenterID(2)])
    }

    /// Rules N15, P5: a program gets no notice of its own changes while its presenter is muted, and none when the presenter is
    /// unmuted.
    @Test("at the end, a muted presenter gets a notice of other programs' changes, not of its own")
    func aMutedPresenterGetsNoNoticeOfItsOwnChanges() {
        var harness = Self.world()
        let (editor, place) = (Party.process(53), Place(in: ItemID(10)))
        harness.present(4, 20, in: 10, by: editor)
        harness.present(5, 20, in: 10, by: .process(54))
        harness.tell(.muted([PresenterID(4), PresenterID(5)]))
        func change(by party: Party) {
            let cause = Cause(party, .write(.updating))
            harness.tell(.changed(ItemID(20), at: place, cause, under: nil, stamp: 1))
        }
        change(by: editor)
        let move = Move(from: place, to: Place(in: ItemID(11)))
        harness.tell(.moved(ItemID(20), move, by: editor, under: nil))
        harness.tell(.unmuted([PresenterID(4), PresenterID(5)]))
        #expect(Self.told(harness).map(\.presenter) == [PresenterID(5), PresenterID(5)])
        harness.tell(.muted([PresenterID(4)]))
        change(by: editor)
        change(by: Self.writer)
        change(by: editor)
        harness.tell(.unmuted([PresenterID(4)]))
        #expect(Self.told(harness).map(\.kind) == [.didChange])
    }

    @Test(
        "an unmuted presenter gets the moves that it missed, and no record stays after the presenter's removal"
    )
    func anUnmutedPresenterGetsTheMovesThatItMissed() {
        var harness = Self.world()
        let before = harness.arbiter.remembered
        harness.present(4, 20, in: 10, by: .process(53))
        harness.present(5, 21, in: 11, by: .process(54))
        harness.tell(.muted([PresenterID(3), PresenterID(4), PresenterID(5)]))
        let move = Move(from: Place(in: ItemID(10)), to: Place())
        harness.tell(.moved(ItemID(20), move, by: Self.writer, under: nil))
        harness.tell(.moved(ItemID(11), move, by: Self.writer, under: nil))
        // For the presenter of a package, a new file in the package is a change of the package. This presenter is muted, so it
        // gets no notice.
        #expect(!Self.make(22, in: 11, &harness).map(\.presenter).contains(PresenterID(3)))
        harness.tell(.unmuted([PresenterID(3), PresenterID(4), PresenterID(5)]))
        let told = Self.told(harness)
        #expect(told.filter { $0.kind == .didMove }.map(\.presenter) == [3, 4, 5].map { PresenterID($0) })
        #expect(told.filter { $0.kind != .didMove }.map(\.presenter) == [PresenterID(3)])
        harness.tell(.muted([PresenterID(4), PresenterID(5)]))
        harness.tell(.removed(PresenterID(4)))
        harness.tell(.removed(PresenterID(5)))
        harness.tell(.ended(ClaimID(1)))
        #expect(harness.arbiter.remembered == before)
    }

    @Test("the arbiter stores no record of a paused presenter after its removal")
    func aRemovedPausedPresenterLeavesNoRecord() {
        var harness = Self.world()
        let before = harness.arbiter.remembered
        harness.present(4, 10, by: .process(53))
        harness.tell(.paused([PresenterID(4)]))
        _ = Self.make(20, in: 10, &harness)
        harness.tell(.removed(PresenterID(4)))
        harness.tell(.ended(ClaimID(1)))
        #expect(harness.arbiter.remembered == before)
        harness.tell(.resumed([PresenterID(4)], behind: [PresenterID(4)], told: []))
        #expect(Self.told(harness).isEmpty)
    }

    @Test(
        "events in a folder count towards the quota of a guest, except while the guest's presenter is paused")
    func eventsInAFolderCountTowardsAGuestsQuotaUnlessItsPresenterIsPaused() {
        var harness = Self.world()
        let guest = Presenter(PresenterID(5), of: ItemID(10), by: .process(54), .all, guest: 7)
        harness.tell(.presented(guest))
        var arbiter = harness.arbiter
        var effects: [Effect] = []
        for number in 20..<30 as Range<UInt64> {
            let place = Place(in: ItemID(10))
            arbiter.handle(
                .created(ItemID(number), at: place, by: Self.writer, under: nil), at: harness.now,
                into: &effects
            )
            if number == 24 { arbiter.handle(.paused([PresenterID(5)]), at: harness.now, into: &effects) }
        }
        #expect(arbiter.takeSubitemEventCounts() == [7: 5])
        #expect(arbiter.takeSubitemEventCounts().isEmpty)
    }

    @Test(
        "an event counts towards a guest's quota only if more than 16 presenters of the guest get the event")
    func anEventCountsTowardsAGuestsQuotaIfOver16OfItsPresentersGetTheEvent() {
        for (count, counted) in [(16, [:]), (17, [7: 17])] as [(UInt64, [UInt32: Int])] {
            var harness = ArbiterHarness()
            for number in 1...count {
                let guest = Presenter(PresenterID(number), of: ItemID(1), by: .process(50), .all, guest: 7)
                harness.tell(.presented(guest))
            }
            let cause = Cause(Self.writer, .write(.updating))
            harness.tell(.changed(ItemID(1), at: Place(), cause, under: nil, stamp: 1))
            var arbiter = harness.arbiter
            #expect(arbiter.takeOwnEventCounts() == counted)
        }
    }
}
