// SPDX-License-Identifier: Apache-2.0
import Arbitration
import Coordination
import Testing

/// Checks the queries by which the engine and users read the arbiter's state. A query changes nothing.
@Suite("Queries of the arbiter")
struct QueryTests {
    private let editor = Party.process(50)
    private let child = Party.process(51, below: 50)
    private let stranger = Party.process(100)

    /// Rule Q1: the query returns the claim that blocks a waiting claim. In a queue, this is the claim directly before it.
    @Test func aWaitingClaimIsBlockedByTheClaimBeforeItInTheQueue() {
        var harness = ArbiterHarness()
        harness.claim(1, .write(.updating), 1)
        harness.claim(2, .write(.updating), 1)
        harness.claim(3, .read(), 1)
        #expect(harness.arbiter.blocker(of: ClaimID(1)) == nil)
        #expect(harness.arbiter.blocker(of: ClaimID(2)) == ClaimID(1))
        #expect(harness.arbiter.blocker(of: ClaimID(3)) == ClaimID(2))
        #expect(harness.arbiter.claims(on: ItemID(1)) == [ClaimID(1), ClaimID(2), ClaimID(3)])
        #expect(harness.arbiter.claims(on: ItemID(2)).isEmpty)
        #expect(!harness.arbiter.isContended(ClaimID(3)))
    }

    /// Rule P5: if a program has an access to an item, its other changes of this item are reported as changes within the
    /// access.
    @Test func aProgramsChangesDuringItsAccessCountAsPartOfTheAccess() {
        var harness = ArbiterHarness()
        let (root, folder, file, other) = (ItemID(1), ItemID(2), ItemID(3), ItemID(4))
        harness.tell(.placed(root, DirectoryInfo(in: nil)))
        harness.tell(.placed(folder, DirectoryInfo(in: root)))
        func around(_ party: Party, _ item: ItemID, in directory: ItemID) -> ClaimID? {
            harness.arbiter.enclosingWrite(of: party, on: item, at: Place(in: directory))?.claim
        }
        func begin(_ claim: UInt64, _ item: ItemID, _ access: Access, purpose: String, in directory: ItemID) {
            var party = editor
            party.purpose = Purpose(purpose)
            let part = ClaimRequest.Part(item, access, at: Place(in: directory))
            harness.tell(.claimed(ClaimRequest(ClaimID(claim), .aware, part, nil)))
            harness.tell(.identified(ClaimID(claim), party))
        }
        #expect(around(editor, file, in: folder) == nil)
        begin(1, file, .read(), purpose: "a", in: folder)
        #expect(around(editor, file, in: folder) == nil)
        begin(2, other, .write(.updating), purpose: "a", in: root)
        // As long as the program has a single purpose, changes by its other system calls are also reported as part of the
        // access.
        #expect(around(editor, file, in: folder) == ClaimID(2))
        #expect(around(child, file, in: folder) == ClaimID(2))
        #expect(around(stranger, file, in: folder) == nil)
        var aware = editor
        aware.purpose = Purpose("b")
        #expect(around(aware, file, in: folder) == nil)
        begin(3, folder, .write(.forMoving), purpose: "a", in: root)
        #expect(around(editor, other, in: root) == ClaimID(2))
        #expect(around(editor, ItemID(9), in: folder) == ClaimID(3))
        #expect(around(editor, ItemID(9), in: root) == ClaimID(3))
        harness.tell(.ended(ClaimID(3)))
        begin(4, ItemID(5), .write(.updating), purpose: "c", in: root)
        #expect(around(editor, ItemID(5), in: root) == ClaimID(4))
        #expect(around(editor, other, in: root) == ClaimID(2))
        #expect(around(editor, ItemID(9), in: root) == nil)
        // An updating write of a directory covers no changes of the files in it.
        begin(6, folder, .write(.updating), purpose: "e", in: root)
        #expect(around(editor, folder, in: root) == ClaimID(6))
        #expect(around(editor, file, in: folder) == nil)
        // A waiting claim covers no changes, because its program cannot have changed anything yet.
        begin(5, other, .write(.updating), purpose: "d", in: root)
        #expect(around(editor, other, in: root) == ClaimID(2))
    }

    /// Rule P5: if several accesses fit a change, the change is reported within the latest access, in any order of iteration.
    @Test func aChangeCountsAsPartOfItsProgramsLatestAccess() {
        var harness = ArbiterHarness()
        let aware = Party.process(50, purpose: "a")
        for number in UInt64(1)...12 {
            harness.claim(number, .write(.updating), number, by: aware, as: .aware)
            let found = harness.arbiter.enclosingWrite(of: editor, on: ItemID(99), at: Place())
            #expect(found?.claim == ClaimID(number))
        }
    }

    /// Rule P5: an access to a package covers changes of every file in it, as if the package were one file.
    @Test func aChangeInAPackageCountsAsPartOfTheAccessToThePackage() {
        var harness = ArbiterHarness()
        let (root, package) = (ItemID(1), ItemID(2))
        harness.tell(.placed(root, DirectoryInfo(in: nil)))
        harness.tell(.placed(package, DirectoryInfo(in: root, isPackage: true)))
        for (claim, purpose, item) in [(UInt64(1), "a", ItemID(3)), (2, "b", ItemID(4))] {
            var party = editor
            party.purpose = Purpose(purpose)
            let directory = item == ItemID(3) ? package : root
            let part = ClaimRequest.Part(item, .write(.updating), at: Place(in: directory))
            harness.tell(.claimed(ClaimRequest(ClaimID(claim), .aware, part, nil)))
            harness.tell(.identified(ClaimID(claim), party))
        }
        let found = harness.arbiter.enclosingWrite(of: editor, on: ItemID(9), at: Place(in: package))
        #expect(found?.claim == ClaimID(1))
        #expect(found?.by.purpose == Purpose("a"))
        #expect(harness.arbiter.enclosingWrite(of: editor, on: ItemID(9), at: Place(in: root)) == nil)
    }

    /// Rule Y8: when an unrelated program is granted a write of the same item, a suspended writer is superseded. Before the
    /// grant, the suspended writer is not superseded.
    @Test func aGrantedWriterSupersedesASuspendedWriter() {
        var harness = ArbiterHarness()
        harness.claim(1, .write(.updating), 1, by: editor)
        #expect(!harness.arbiter.isSuperseded(ClaimID(1)))
        harness.claim(2, .write(.updating), 1, by: stranger)
        #expect(!harness.arbiter.isSuperseded(ClaimID(1)))
        harness.tell(.observed(ClaimID(1), .clean))
        #expect(harness.granted == [ClaimID(2)])
        #expect(harness.arbiter.isSuperseded(ClaimID(1)) && !harness.arbiter.isSuperseded(ClaimID(2)))
        #expect(harness.arbiter.hasYieldedClean(ClaimID(1)) && !harness.arbiter.hasYieldedClean(ClaimID(2)))
        #expect(harness.arbiter.suspension(of: ClaimID(1)) == .yielded)
        #expect(harness.arbiter.suspension(of: ClaimID(2)) == nil)
        #expect(harness.arbiter.suspendedWriter(beside: ClaimID(2)) == ClaimID(1))
        harness.tell(.ended(ClaimID(2)))
        #expect(!harness.arbiter.isSuperseded(ClaimID(1)))
    }

    /// Rule Y8: a later writer still supersedes the first writer when the later writer is itself suspended for a reader.
    @Test func aSuspendedSecondWriterStillSupersedesTheFirstWriter() {
        var harness = ArbiterHarness()
        harness.claim(1, .write(.updating), 1, by: editor)
        harness.claim(2, .write(.updating), 1, by: stranger)
        harness.tell(.observed(ClaimID(1), .clean))
        #expect(harness.granted == [ClaimID(2)])
        harness.claim(3, .read(), 1, by: .process(70))
        harness.tell(.observed(ClaimID(2), .dirty(stamp: 1)))
        harness.now = harness.now + Bounds().idle
        harness.tell(.observed(ClaimID(2), .dirty(stamp: 1)))
        #expect(harness.granted == [ClaimID(3)])
        #expect(harness.arbiter.suspension(of: ClaimID(2)) == .idle)
        #expect(harness.arbiter.isSuperseded(ClaimID(1)) && !harness.arbiter.isSuperseded(ClaimID(2)))
    }

    /// Rule Y8: a writer that has not changed the file supersedes no other writer.
    @Test func aSuspendedWriterWithoutChangesSupersedesNoWriter() {
        var harness = ArbiterHarness()
        harness.claim(1, .write(.updating), 1, by: editor)
        harness.claim(2, .write(.updating), 1, by: stranger)
        harness.tell(.observed(ClaimID(1), .clean))
        harness.claim(3, .read(), 1, by: .process(70))
        harness.tell(.observed(ClaimID(2), .clean))
        #expect(harness.granted == [ClaimID(3)])
        #expect(!harness.arbiter.isSuperseded(ClaimID(1)))
    }

    /// Rules Y8 and T2: a claim that is granted by force although a writer holds the item supersedes this writer, even if the
    /// writer is not suspended.
    @Test func aClaimThatPreemptsAWriterSupersedesThatWriter() {
        var harness = ArbiterHarness()
        harness.claim(1, .write(.updating), 1, by: editor)
        harness.claim(2, .write(.updating), 1, by: stranger)
        harness.tell(.forced(ClaimID(2)))
        #expect(harness.granted == [ClaimID(2)])
        #expect(harness.arbiter.suspension(of: ClaimID(1)) == nil)
        #expect(harness.arbiter.suspendedWriter(beside: ClaimID(2)) == ClaimID(1))
        #expect(harness.arbiter.suspendedWriter(beside: ClaimID(1)) == nil)
        #expect(harness.arbiter.isSuperseded(ClaimID(1)) && !harness.arbiter.isSuperseded(ClaimID(2)))
        harness.tell(.ended(ClaimID(2)))
        #expect(!harness.arbiter.isSuperseded(ClaimID(1)))
    }

    /// Rule Y8: a claim has two parts, and each part's item has a suspended writer. The query returns the older writer, in any
    /// order of the parts.
    @Test(arguments: [[1, 2], [2, 1]] as [[UInt64]])
    func theQueryReturnsTheOldestSuspendedWriterOfAllItemsOfAClaim(items: [UInt64]) {
        var harness = ArbiterHarness()
        for number in 1...2 as ClosedRange<UInt64> {
            harness.claim(number, .write(.updating), items[Int(number) - 1], by: .process(Int32(number)))
        }
        let parts = (1...2).map { ClaimRequest.Part(ItemID($0), .write(.updating)) }
        harness.tell(.claimed(ClaimRequest(ClaimID(3), .handle, parts[0], parts[1])))
        harness.tell(.identified(ClaimID(3), stranger))
        for number in 1...2 as ClosedRange<UInt64> { harness.tell(.observed(ClaimID(number), .clean)) }
        #expect(harness.granted == [ClaimID(3)])
        #expect(harness.arbiter.suspendedWriter(beside: ClaimID(3)) == ClaimID(1))
        #expect(harness.arbiter.suspendedWriters(beside: ClaimID(3), atMost: 3) == [ClaimID(1), ClaimID(2)])
        #expect(harness.arbiter.suspendedWriters(beside: ClaimID(3), atMost: 1).count == 1)
    }

    /// Rule P6: while a presenter has an open question about an item, its program and child processes work on the answer.
    @Test func anAskedPresentersProgramAndItsChildrenCountAsWorkingOnTheAnswer() {
        var harness = ArbiterHarness()
        #expect(!harness.arbiter.hasAwareClients)
        harness.present(1, 1, by: editor)
        harness.present(2, 2, by: .process(60))
        #expect(harness.arbiter.hasAwareClients)
        #expect(harness.arbiter.isPresented(ItemID(1)) && !harness.arbiter.isPresented(ItemID(3)))
        #expect(harness.arbiter.presenters(of: ItemID(1)) == [PresenterID(1)])
        #expect(!harness.arbiter.owesAnswer(editor, about: ItemID(1)))
        harness.claim(1, .read(), 1, by: stranger)
        let question = harness.asked
        #expect(question.count == 1)
        #expect(harness.arbiter.openQuestions(for: ClaimID(1)).map(\.id) == question)
        #expect(harness.arbiter.openQuestions(of: PresenterID(1)).map(\.id) == question)
        #expect(harness.arbiter.openQuestions(of: PresenterID(2)).isEmpty)
        #expect(harness.arbiter.owesAnswer(editor, about: ItemID(1)))
        #expect(harness.arbiter.owesAnswer(child, about: ItemID(1)))
        #expect(!harness.arbiter.owesAnswer(stranger, about: ItemID(1)))
        #expect(!harness.arbiter.owesAnswer(.process(60), about: ItemID(2)))
        #expect(!harness.arbiter.owesAnswer(editor, about: ItemID(2)))
        #expect(!harness.arbiter.isDemoted(PresenterID(1)))
    }

    /// Rule P6: a program with an unanswered question about one item owes no answer about its other items.
    @Test func aProgramThatIsAskedAboutOneItemOwesNoAnswerAboutAnotherItem() {
        var harness = ArbiterHarness()
        harness.present(1, 1, by: editor)
        harness.present(2, 2, by: editor)
        harness.present(3, 1, by: .process(60))
        harness.claim(1, .read(), 2, by: stranger)
        #expect(harness.asked.count == 1)
        #expect(harness.arbiter.owesAnswer(editor, about: ItemID(2)))
        #expect(!harness.arbiter.owesAnswer(editor, about: ItemID(1)))
        harness.claim(2, .write(.updating), 1, by: .process(101))
        #expect(harness.asked.count == 2)
        #expect(harness.arbiter.openQuestions(for: ClaimID(2)).map(\.id) == harness.asked)
    }

    /// Rules N1, N3: presenters get the changes of an aware access only after its program has closed the handles that it made
    /// within the access.
    @Test func theQueryListsTheHandlesThatAProgramOpensDuringItsAccess() {
        var harness = ArbiterHarness()
        let aware = Party.process(50, purpose: "a")
        harness.claim(1, .write(.updating), 1, by: editor)
        harness.claim(2, .write(.updating), 1, by: aware, as: .aware)
        harness.claim(3, .write(.updating), 1, by: editor)
        #expect(harness.granted == [ClaimID(3)])
        // The item has no presenter yet. So no message has to wait until a handle is closed.
        #expect(harness.arbiter.handles(within: ClaimID(2)).isEmpty)
        harness.present(1, 9, by: stranger)
        harness.claim(4, .write(.updating), 1, by: child)
        harness.claim(5, .read(), 1, by: editor)
        harness.claim(6, .write(.updating), 8, by: editor)
        #expect(harness.arbiter.handles(within: ClaimID(2)) == [ClaimID(3), ClaimID(4)])
        #expect(harness.arbiter.handles(within: ClaimID(3)).isEmpty)
        #expect(harness.arbiter.handles(within: ClaimID(10)).isEmpty)
        harness.tell(.ended(ClaimID(3)))
        #expect(harness.arbiter.handles(within: ClaimID(2)) == [ClaimID(4)])
    }

    /// Rule N3: a handle on another file of the package also keeps the access session open.
    @Test func aHandleOnAnotherFileOfAPackageBelongsToTheAccessToThePackage() {
        var harness = ArbiterHarness()
        harness.tell(.placed(ItemID(1), DirectoryInfo(in: nil)))
        harness.tell(.placed(ItemID(2), DirectoryInfo(in: ItemID(1), isPackage: true)))
        harness.present(1, 2, by: stranger)
        harness.claim(1, .write(.updating), 20, in: 2, by: .process(50, purpose: "a"), as: .aware)
        for question in harness.asked { harness.tell(.answered(question, by: PresenterID(1), .done)) }
        harness.claim(2, .write(.updating), 21, in: 2, by: editor)
        #expect(harness.granted == [ClaimID(2)])
        #expect(harness.arbiter.handles(within: ClaimID(1)) == [ClaimID(2)])
    }

    /// Rule S6: if an aware access for replacing holds an item that is moved away, the access stays with the item's old name.
    @Test func theArbiterReportsThatAnAwareAccessWillReplaceAnItem() {
        var harness = ArbiterHarness()
        harness.claim(1, .write(.forReplacing), 1)
        #expect(!harness.arbiter.awaitsReplacement(ItemID(1)))
        harness.claim(2, .write(.updating), 2, as: .aware)
        harness.claim(3, .write(.forReplacing), 3, as: .aware)
        harness.claim(4, .write(.forReplacing), 4)
        #expect((1...4).map { harness.arbiter.awaitsReplacement(ItemID($0)) } == [false, false, true, false])
        harness.tell(.ended(ClaimID(3)))
        #expect(!harness.arbiter.awaitsReplacement(ItemID(3)))
    }

    /// A claim that a client makes over the socket makes this client an aware client until the claim ends.
    @Test func aProgramIsAnAwareClientWhileItHasAClaimOverTheSocket() {
        var harness = ArbiterHarness()
        harness.claim(1, .read(), 1, as: .aware)
        #expect(harness.arbiter.hasAwareClients)
        harness.tell(.ended(ClaimID(1)))
        #expect(!harness.arbiter.hasAwareClients && harness.arbiter.isAtRest)
    }

    /// Rules S2, S3: two claims conflict at the package that contains both items, or at a directory above them. The query
    /// returns this package or directory.
    @Test func theQueryReturnsThePackageOrDirectoryInWhichTwoClaimsConflict() {
        var harness = ArbiterHarness()
        harness.tell(.placed(ItemID(1), DirectoryInfo(in: nil)))
        harness.tell(.placed(ItemID(2), DirectoryInfo(in: ItemID(1), isPackage: true)))
        harness.claim(1, .write(.updating), 20, in: 2)
        harness.claim(2, .read(), 21, in: 2)
        harness.claim(3, .write(.updating), 2, in: 1)
        harness.claim(4, .write(.forMoving), 1, as: .aware)
        harness.claim(5, .read(), 30, in: 1)
        let arbiter = harness.arbiter
        #expect(arbiter.conflict(of: ClaimID(2), with: ClaimID(1)) == .package(ItemID(2)))
        #expect(arbiter.conflict(of: ClaimID(3), with: ClaimID(1)) == .package(ItemID(2)))
        #expect(arbiter.conflict(of: ClaimID(4), with: ClaimID(1)) == .contents(of: ItemID(1)))
        #expect(arbiter.conflict(of: ClaimID(5), with: ClaimID(1)) == nil)
        #expect(arbiter.conflict(of: ClaimID(5), with: ClaimID(2)) == nil)
        #expect(arbiter.conflict(of: ClaimID(9), with: ClaimID(1)) == nil)
        #expect(arbiter.items(of: ClaimID(3)) == [ItemID(2)])
        #expect(arbiter.claims(on: ItemID(2)) == [ClaimID(1), ClaimID(2), ClaimID(3)])
        #expect(arbiter.claims(on: ItemID(1)) == (1...5).map { ClaimID($0) })
    }

    /// Rule S1: two claims on one item conflict on this item.
    @Test func theQueryReturnsTheItemOnWhichTwoClaimsConflict() {
        var harness = ArbiterHarness()
        harness.claim(1, .read(), 1)
        harness.claim(2, .write(.updating), 1)
        harness.claim(3, .read(), 1)
        #expect(harness.arbiter.conflict(of: ClaimID(2), with: ClaimID(1)) == .item(ItemID(1)))
        #expect(harness.arbiter.conflict(of: ClaimID(1), with: ClaimID(2)) == .item(ItemID(1)))
        #expect(harness.arbiter.conflict(of: ClaimID(1), with: ClaimID(3)) == nil)
    }

    /// Rule D1: one query returns the claims on which a holder depends. Another query returns the claims that are made to
    /// answer a question.
    @Test func theQueryListsTheClaimsThatAPresenterMakesForItsAnswer() {
        var harness = ArbiterHarness()
        harness.present(1, 1, by: editor)
        harness.claim(1, .write(.updating), 2, by: .process(70, purpose: "a"), as: .aware)
        harness.claim(2, .read(), 1, by: stranger)
        let question = harness.asked[0]
        var save = ClaimRequest(ClaimID(3), .aware, ClaimRequest.Part(ItemID(2), .write(.updating)))
        save.answering = question
        harness.tell(.claimed(save))
        #expect(harness.arbiter.answerers(of: question) == [ClaimID(3)])
        #expect(harness.arbiter.dependencies(of: ClaimID(1)).isEmpty)
        #expect(harness.arbiter.dependencies(of: ClaimID(3)).isEmpty)
        harness.tell(.identified(ClaimID(3), .process(50, purpose: "b")))
        var nested = ClaimRequest(ClaimID(4), .aware, ClaimRequest.Part(ItemID(2), .read()))
        nested.within = [ClaimID(1)]
        harness.tell(.claimed(nested))
        #expect(harness.arbiter.dependencies(of: ClaimID(1)).isEmpty)
        harness.tell(.identified(ClaimID(4), .process(71, purpose: "c")))
        #expect(harness.arbiter.lastWait(of: ClaimID(4))?.blocker != nil)
    }

    /// Rule T1: the arbiter stores the last wait of a refused claim until the next event.
    @Test func theArbiterStoresWhichClaimBlockedARefusedClaimUntilTheNextEvent() {
        var bounds = Bounds()
        bounds.policy = .fail
        var harness = ArbiterHarness(bounds)
        harness.claim(1, .write(.updating), 1, as: .aware)
        harness.claim(2, .write(.updating), 1)
        harness.tick(at: Instant(nanoseconds: 0) + bounds.wait)
        #expect(harness.effects.contains(.refuse(ClaimID(2), .busy)))
        #expect(harness.arbiter.lastWait(of: ClaimID(2))?.blocker == ClaimID(1))
        #expect(harness.arbiter.lastWait(of: ClaimID(2))?.questions.isEmpty ?? false)
        #expect(harness.arbiter.lastWait(of: ClaimID(1)) == nil)
        harness.tell(.tick)
        #expect(harness.arbiter.lastWait(of: ClaimID(2)) == nil)
    }

    /// Rule N6: changes of an item are sent to presenters of the item, of its parts and of the directories above it.
    @Test func presentersAboveAndBelowAnItemGetItsChanges() {
        var harness = ArbiterHarness()
        let nowhere = Place()
        #expect(!harness.arbiter.hasInterestedPresenter(of: ItemID(1), at: nowhere))
        harness.tell(.placed(ItemID(1), DirectoryInfo(in: nil)))
        harness.tell(.placed(ItemID(2), DirectoryInfo(in: ItemID(1))))
        harness.tell(.placed(ItemID(3), DirectoryInfo(in: ItemID(2))))
        harness.present(1, 2, in: 1, by: editor)
        #expect(harness.arbiter.hasInterestedPresenter(of: ItemID(2), at: Place(in: ItemID(1))))
        #expect(harness.arbiter.hasInterestedPresenter(of: ItemID(1), at: nowhere))
        #expect(harness.arbiter.hasInterestedPresenter(of: ItemID(30), at: Place(in: ItemID(3))))
        #expect(!harness.arbiter.hasInterestedPresenter(of: ItemID(10), at: Place(in: ItemID(1))))
        let isInterested = { (harness: ArbiterHarness, party: Party, item: UInt64, directory: UInt64) in
            harness.arbiter.hasInterestedPresenter(
                of: ItemID(item), at: Place(in: ItemID(directory)), by: party)
        }
        #expect(isInterested(harness, editor, 2, 1))
        #expect(isInterested(harness, child, 30, 3))
        #expect(!isInterested(harness, editor, 10, 1))
        #expect(!isInterested(harness, stranger, 30, 3))
    }

    /// Rules P18, P26: a presenter of a directory is asked about the deletion of a file in it. The presenter is asked only if
    /// it implements the question and has got a notice of the file's name.
    @Test func presentersAboveAnItemAreAskedAboutItsDeletion() {
        var harness = ArbiterHarness()
        harness.tell(.placed(ItemID(1), DirectoryInfo(in: nil)))
        harness.tell(.placed(ItemID(2), DirectoryInfo(in: ItemID(1))))
        let (old, new) = (Place(in: ItemID(2), link: LinkID(1)), Place(in: ItemID(2), link: LinkID(2)))
        let isAsked = { (harness: ArbiterHarness, place: Place, party: Party) in
            harness.arbiter.mustAskPresentersAbove(aboutDeletionOf: ItemID(30), at: place, by: party)
        }
        #expect(!isAsked(harness, old, stranger))
        harness.present(1, 1, by: editor, [.subitemDidChange])
        #expect(!isAsked(harness, old, stranger))
        harness.present(2, 1, by: editor, [.subitemDidAppear, .accommodateSubitemDeletion])
        #expect(isAsked(harness, old, stranger))
        // Rule P5: if its own program or a child process of this program deletes the file, the presenter is not asked.
        #expect(!isAsked(harness, old, editor) && !isAsked(harness, old, child))
        harness.tell(.created(ItemID(30), at: new, by: stranger, under: nil))
        #expect(!isAsked(harness, new, stranger) && isAsked(harness, old, stranger))
        harness.tick(at: harness.now + .seconds(1))
        #expect(isAsked(harness, new, stranger))
    }
}
