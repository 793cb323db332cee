// SPDX-License-Identifier: Apache-2.0
import Arbitration
import Coordination
import Testing

/// What the engine and people ask the arbiter, without changing anything.
@Suite("Queries")
struct QueryTests {
    private let editor = Party.process(50)
    private let child = Party.process(51, below: 50)
    private let stranger = Party.process(100)

    /// Rule Q1: who waits in the way is named, and of a queue the last one.
    @Test func whoWaitsKnowsForWhom() {
        var talk = Conversation()
        talk.claim(1, .write(.updating), 1)
        talk.claim(2, .write(.updating), 1)
        talk.claim(3, .read(), 1)
        #expect(talk.arbiter.obstacle(of: ClaimID(1)) == nil)
        #expect(talk.arbiter.obstacle(of: ClaimID(2)) == ClaimID(1))
        #expect(talk.arbiter.obstacle(of: ClaimID(3)) == ClaimID(2))
        #expect(talk.arbiter.claims(on: ItemID(1)) == [ClaimID(1), ClaimID(2), ClaimID(3)])
        #expect(talk.arbiter.claims(on: ItemID(2)).isEmpty)
    }

    /// Rule P5: what a program does within an access of its own is that access's doing, for those who are told.
    @Test func whatIsDoneWithinAnAccessIsItsDoing() {
        var talk = Conversation()
        let (root, folder, file, other) = (ItemID(1), ItemID(2), ItemID(3), ItemID(4))
        talk.tell(.placed(root, Directory(in: nil)))
        talk.tell(.placed(folder, Directory(in: root)))
        func around(_ party: Party, _ item: ItemID, in directory: ItemID) -> ClaimID? {
            talk.arbiter.write(around: party, of: item, at: Place(in: directory))?.claim
        }
        func begin(_ claim: UInt64, _ item: ItemID, _ access: Access, purpose: String, in directory: ItemID) {
            var party = editor
            party.purpose = Purpose(purpose)
            let part = Request.Part(item, access, at: Place(in: directory))
            talk.tell(.claimed(Request(ClaimID(claim), .aware, part, nil)))
            talk.tell(.identified(ClaimID(claim), party))
        }
        #expect(around(editor, file, in: folder) == nil)
        begin(1, file, .read(), purpose: "a", in: folder)
        #expect(around(editor, file, in: folder) == nil)
        begin(2, other, .write(.updating), purpose: "a", in: root)
        // Beside what it writes, as long as there is one purpose.
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
        talk.tell(.ended(ClaimID(3)))
        begin(4, ItemID(5), .write(.updating), purpose: "c", in: root)
        #expect(around(editor, ItemID(5), in: root) == ClaimID(4))
        #expect(around(editor, other, in: root) == ClaimID(2))
        #expect(around(editor, ItemID(9), in: root) == nil)
        // Who updates a directory writes nothing in it.
        begin(6, folder, .write(.updating), purpose: "e", in: root)
        #expect(around(editor, folder, in: root) == ClaimID(6))
        #expect(around(editor, file, in: folder) == nil)
        // Whoever still waits has done nothing.
        begin(5, other, .write(.updating), purpose: "d", in: root)
        #expect(around(editor, other, in: root) == ClaimID(2))
    }

    /// Rule P5: of several the latest, in whatever order they are gone through.
    @Test func whatIsDoneIsPartOfTheLatestAccess() {
        var talk = Conversation()
        let aware = Party.process(50, purpose: "a")
        for number in UInt64(1)...12 {
            talk.claim(number, .write(.updating), number, by: aware, as: .aware)
            let found = talk.arbiter.write(around: editor, of: ItemID(99), at: Place())
            #expect(found?.claim == ClaimID(number))
        }
    }

    /// Rule P5: a package is written as one file.
    @Test func whatIsDoneInAPackageIsDoneToAllOfIt() {
        var talk = Conversation()
        let (root, package) = (ItemID(1), ItemID(2))
        talk.tell(.placed(root, Directory(in: nil)))
        talk.tell(.placed(package, Directory(in: root, isPackage: true)))
        for (claim, purpose, item) in [(UInt64(1), "a", ItemID(3)), (2, "b", ItemID(4))] {
            var party = editor
            party.purpose = Purpose(purpose)
            let directory = item == ItemID(3) ? package : root
            let part = Request.Part(item, .write(.updating), at: Place(in: directory))
            talk.tell(.claimed(Request(ClaimID(claim), .aware, part, nil)))
            talk.tell(.identified(ClaimID(claim), party))
        }
        let found = talk.arbiter.write(around: editor, of: ItemID(9), at: Place(in: package))
        #expect(found?.claim == ClaimID(1))
        #expect(found?.by.purpose == Purpose("a"))
        #expect(talk.arbiter.write(around: editor, of: ItemID(9), at: Place(in: root)) == nil)
    }

    /// Rule Y8: a suspended writer is overruled once a stranger writes beside it, and not before.
    @Test func aSuspendedWriterIsOverruledByOneWhoWritesOn() {
        var talk = Conversation()
        talk.claim(1, .write(.updating), 1, by: editor)
        #expect(!talk.arbiter.isOverruled(ClaimID(1)))
        talk.claim(2, .write(.updating), 1, by: stranger)
        #expect(!talk.arbiter.isOverruled(ClaimID(1)))
        talk.tell(.observed(ClaimID(1), .clean))
        #expect(talk.granted == [ClaimID(2)])
        #expect(talk.arbiter.isOverruled(ClaimID(1)) && !talk.arbiter.isOverruled(ClaimID(2)))
        #expect(talk.arbiter.hasYieldedClean(ClaimID(1)) && !talk.arbiter.hasYieldedClean(ClaimID(2)))
        #expect(talk.arbiter.suspension(of: ClaimID(1)) == .yielded)
        #expect(talk.arbiter.suspension(of: ClaimID(2)) == nil)
        #expect(talk.arbiter.suspendedWriter(beside: ClaimID(2)) == ClaimID(1))
        talk.tell(.ended(ClaimID(2)))
        #expect(!talk.arbiter.isOverruled(ClaimID(1)))
    }

    /// Rule Y8: one who was given the item later stays overruling when a reader has let it be suspended, too.
    @Test func aSuspendedWriterStaysOverruledByALaterOne() {
        var talk = Conversation()
        talk.claim(1, .write(.updating), 1, by: editor)
        talk.claim(2, .write(.updating), 1, by: stranger)
        talk.tell(.observed(ClaimID(1), .clean))
        #expect(talk.granted == [ClaimID(2)])
        talk.claim(3, .read(), 1, by: .process(70))
        talk.tell(.observed(ClaimID(2), .dirty(stamp: 1)))
        talk.now = talk.now + Bounds().idle
        talk.tell(.observed(ClaimID(2), .dirty(stamp: 1)))
        #expect(talk.granted == [ClaimID(3)])
        #expect(talk.arbiter.suspension(of: ClaimID(2)) == .idle)
        #expect(talk.arbiter.isOverruled(ClaimID(1)) && !talk.arbiter.isOverruled(ClaimID(2)))
    }

    /// Rule Y8: what has not changed the file is not gone over.
    @Test func aSuspendedWriterIsNotOverruledByOneThatYieldedClean() {
        var talk = Conversation()
        talk.claim(1, .write(.updating), 1, by: editor)
        talk.claim(2, .write(.updating), 1, by: stranger)
        talk.tell(.observed(ClaimID(1), .clean))
        talk.claim(3, .read(), 1, by: .process(70))
        talk.tell(.observed(ClaimID(2), .clean))
        #expect(talk.granted == [ClaimID(3)])
        #expect(!talk.arbiter.isOverruled(ClaimID(1)))
    }

    /// Rules Y8 and T2: who is let through over a writer that is not suspended leaves contents, and takes its.
    @Test func aWriterThatSomebodyWentOverIsOverruled() {
        var talk = Conversation()
        talk.claim(1, .write(.updating), 1, by: editor)
        talk.claim(2, .write(.updating), 1, by: stranger)
        talk.tell(.forced(ClaimID(2)))
        #expect(talk.granted == [ClaimID(2)])
        #expect(talk.arbiter.suspension(of: ClaimID(1)) == nil)
        #expect(talk.arbiter.suspendedWriter(beside: ClaimID(2)) == ClaimID(1))
        #expect(talk.arbiter.suspendedWriter(beside: ClaimID(1)) == nil)
        #expect(talk.arbiter.isOverruled(ClaimID(1)) && !talk.arbiter.isOverruled(ClaimID(2)))
        talk.tell(.ended(ClaimID(2)))
        #expect(!talk.arbiter.isOverruled(ClaimID(1)))
    }

    /// Rule Y8: of the writers beside several parts the oldest is named, whichever part it is beside.
    @Test(arguments: [[1, 2], [2, 1]] as [[UInt64]])
    func theOldestOfThoseBesideAllPartsIsNamed(items: [UInt64]) {
        var talk = Conversation()
        for number in 1...2 as ClosedRange<UInt64> {
            talk.claim(number, .write(.updating), items[Int(number) - 1], by: .process(Int32(number)))
        }
        let parts = (1...2).map { Request.Part(ItemID($0), .write(.updating)) }
        talk.tell(.claimed(Request(ClaimID(3), .handle, parts[0], parts[1])))
        talk.tell(.identified(ClaimID(3), stranger))
        for number in 1...2 as ClosedRange<UInt64> { talk.tell(.observed(ClaimID(number), .clean)) }
        #expect(talk.granted == [ClaimID(3)])
        #expect(talk.arbiter.suspendedWriter(beside: ClaimID(3)) == ClaimID(1))
        #expect(talk.arbiter.suspendedWriters(beside: ClaimID(3), atMost: 3) == [ClaimID(1), ClaimID(2)])
        #expect(talk.arbiter.suspendedWriters(beside: ClaimID(3), atMost: 1).count == 1)
    }

    /// Rule P6: who works for a presenter that owes an answer about an item, and who does not.
    @Test func whoOwesAnAnswerIsKnown() {
        var talk = Conversation()
        #expect(!talk.arbiter.isAttended)
        talk.present(1, 1, by: editor)
        talk.present(2, 2, by: .process(60))
        #expect(talk.arbiter.isAttended)
        #expect(talk.arbiter.isPresented(ItemID(1)) && !talk.arbiter.isPresented(ItemID(3)))
        #expect(talk.arbiter.presenters(of: ItemID(1)) == [PresenterID(1)])
        #expect(!talk.arbiter.owesAnswer(editor, about: ItemID(1)))
        talk.claim(1, .read(), 1, by: stranger)
        let question = talk.asked
        #expect(question.count == 1)
        #expect(talk.arbiter.openQuestions(for: ClaimID(1)).map(\.id) == question)
        #expect(talk.arbiter.openQuestions(of: PresenterID(1)).map(\.id) == question)
        #expect(talk.arbiter.openQuestions(of: PresenterID(2)).isEmpty)
        #expect(talk.arbiter.owesAnswer(editor, about: ItemID(1)))
        #expect(talk.arbiter.owesAnswer(child, about: ItemID(1)))
        #expect(!talk.arbiter.owesAnswer(stranger, about: ItemID(1)))
        #expect(!talk.arbiter.owesAnswer(.process(60), about: ItemID(2)))
        #expect(!talk.arbiter.owesAnswer(editor, about: ItemID(2)))
        #expect(!talk.arbiter.isDemoted(PresenterID(1)))
    }

    /// Rule P6: a debtor of one item owes nothing about another that it shows as well.
    @Test func whoOwesIsAskedForTheItem() {
        var talk = Conversation()
        talk.present(1, 1, by: editor)
        talk.present(2, 2, by: editor)
        talk.present(3, 1, by: .process(60))
        talk.claim(1, .read(), 2, by: stranger)
        #expect(talk.asked.count == 1)
        #expect(talk.arbiter.owesAnswer(editor, about: ItemID(2)))
        #expect(!talk.arbiter.owesAnswer(editor, about: ItemID(1)))
        talk.claim(2, .write(.updating), 1, by: .process(101))
        #expect(talk.asked.count == 2)
        #expect(talk.arbiter.openQuestions(for: ClaimID(2)).map(\.id) == talk.asked)
    }

    /// Rules N1, N3: what has to be closed before an aware access can end as its presenters expect.
    @Test func handlesWithinAnAccessAreKnown() {
        var talk = Conversation()
        let aware = Party.process(50, purpose: "a")
        talk.claim(1, .write(.updating), 1, by: editor)
        talk.claim(2, .write(.updating), 1, by: aware, as: .aware)
        talk.claim(3, .write(.updating), 1, by: editor)
        #expect(talk.granted == [ClaimID(3)])
        // Nobody would be told.
        #expect(talk.arbiter.handles(within: ClaimID(2)).isEmpty)
        talk.present(1, 9, by: stranger)
        talk.claim(4, .write(.updating), 1, by: child)
        talk.claim(5, .read(), 1, by: editor)
        talk.claim(6, .write(.updating), 8, by: editor)
        #expect(talk.arbiter.handles(within: ClaimID(2)) == [ClaimID(3), ClaimID(4)])
        #expect(talk.arbiter.handles(within: ClaimID(3)).isEmpty)
        #expect(talk.arbiter.handles(within: ClaimID(10)).isEmpty)
        talk.tell(.ended(ClaimID(3)))
        #expect(talk.arbiter.handles(within: ClaimID(2)) == [ClaimID(4)])
    }

    /// Rule N3: a handle on another part of a package keeps its turn open as well.
    @Test func handlesInTheTurnOfAnAccessAreKnown() {
        var talk = Conversation()
        talk.tell(.placed(ItemID(1), Directory(in: nil)))
        talk.tell(.placed(ItemID(2), Directory(in: ItemID(1), isPackage: true)))
        talk.present(1, 2, by: stranger)
        talk.claim(1, .write(.updating), 20, in: 2, by: .process(50, purpose: "a"), as: .aware)
        for question in talk.asked { talk.tell(.answered(question, by: PresenterID(1), .done)) }
        talk.claim(2, .write(.updating), 21, in: 2, by: editor)
        #expect(talk.granted == [ClaimID(2)])
        #expect(talk.arbiter.handles(within: ClaimID(1)) == [ClaimID(2)])
    }

    /// Rule S6: of what name a number must be made when an item is moved.
    @Test func whatIsToBeReplacedIsKnown() {
        var talk = Conversation()
        talk.claim(1, .write(.forReplacing), 1)
        #expect(!talk.arbiter.isToBeReplaced(ItemID(1)))
        talk.claim(2, .write(.updating), 2, as: .aware)
        talk.claim(3, .write(.forReplacing), 3, as: .aware)
        talk.claim(4, .write(.forReplacing), 4)
        #expect((1...4).map { talk.arbiter.isToBeReplaced(ItemID($0)) } == [false, false, true, false])
        talk.tell(.ended(ClaimID(3)))
        #expect(!talk.arbiter.isToBeReplaced(ItemID(3)))
    }

    /// Whoever claims over the socket is somebody to attend to.
    @Test func anAwareClaimIsAttendedTo() {
        var talk = Conversation()
        talk.claim(1, .read(), 1, as: .aware)
        #expect(talk.arbiter.isAttended)
        talk.tell(.ended(ClaimID(1)))
        #expect(!talk.arbiter.isAttended && talk.arbiter.isAtRest)
    }

    /// Rules S2, S3: on what two claims meet, and what they are on.
    @Test func twoClaimsKnowOnWhatTheyMeet() {
        var talk = Conversation()
        talk.tell(.placed(ItemID(1), Directory(in: nil)))
        talk.tell(.placed(ItemID(2), Directory(in: ItemID(1), isPackage: true)))
        talk.claim(1, .write(.updating), 20, in: 2)
        talk.claim(2, .read(), 21, in: 2)
        talk.claim(3, .write(.updating), 2, in: 1)
        talk.claim(4, .write(.forMoving), 1, as: .aware)
        talk.claim(5, .read(), 30, in: 1)
        let arbiter = talk.arbiter
        #expect(arbiter.meeting(of: ClaimID(2), with: ClaimID(1)) == .package(ItemID(2)))
        #expect(arbiter.meeting(of: ClaimID(3), with: ClaimID(1)) == .package(ItemID(2)))
        #expect(arbiter.meeting(of: ClaimID(4), with: ClaimID(1)) == .contents(of: ItemID(1)))
        #expect(arbiter.meeting(of: ClaimID(5), with: ClaimID(1)) == nil)
        #expect(arbiter.meeting(of: ClaimID(5), with: ClaimID(2)) == nil)
        #expect(arbiter.meeting(of: ClaimID(9), with: ClaimID(1)) == nil)
        #expect(arbiter.items(of: ClaimID(3)) == [ItemID(2)])
        #expect(arbiter.claims(on: ItemID(2)) == [ClaimID(1), ClaimID(2), ClaimID(3)])
        #expect(arbiter.claims(on: ItemID(1)) == (1...5).map { ClaimID($0) })
    }

    /// Rule S1: those who are on one item meet there.
    @Test func twoClaimsOnOneItemMeetThere() {
        var talk = Conversation()
        talk.claim(1, .read(), 1)
        talk.claim(2, .write(.updating), 1)
        talk.claim(3, .read(), 1)
        #expect(talk.arbiter.meeting(of: ClaimID(2), with: ClaimID(1)) == .item(ItemID(1)))
        #expect(talk.arbiter.meeting(of: ClaimID(1), with: ClaimID(2)) == .item(ItemID(1)))
        #expect(talk.arbiter.meeting(of: ClaimID(1), with: ClaimID(3)) == nil)
    }

    /// Rule D1: what hangs on what, and which claims answer which question.
    @Test func whatHangsOnWhatIsKnown() {
        var talk = Conversation()
        talk.present(1, 1, by: editor)
        talk.claim(1, .write(.updating), 2, by: .process(70, purpose: "a"), as: .aware)
        talk.claim(2, .read(), 1, by: stranger)
        let question = talk.asked[0]
        var save = Request(ClaimID(3), .aware, Request.Part(ItemID(2), .write(.updating)))
        save.answering = question
        talk.tell(.claimed(save))
        #expect(talk.arbiter.answerers(of: question) == [ClaimID(3)])
        #expect(talk.arbiter.waited(by: ClaimID(1)).isEmpty)
        #expect(talk.arbiter.waited(by: ClaimID(3)).isEmpty)
        talk.tell(.identified(ClaimID(3), .process(50, purpose: "b")))
        var nested = Request(ClaimID(4), .aware, Request.Part(ItemID(2), .read()))
        nested.within = [ClaimID(1)]
        talk.tell(.claimed(nested))
        #expect(talk.arbiter.waited(by: ClaimID(1)).isEmpty)
        talk.tell(.identified(ClaimID(4), .process(71, purpose: "c")))
        #expect(talk.arbiter.lastWait(of: ClaimID(4))?.obstacle != nil)
    }

    /// Rule T1: what a refused claim waited for is known until the next event.
    @Test func whatARefusedClaimWaitedForIsKnownOnce() {
        var bounds = Bounds()
        bounds.policy = .fail
        var talk = Conversation(bounds)
        talk.claim(1, .write(.updating), 1, as: .aware)
        talk.claim(2, .write(.updating), 1)
        talk.tick(at: Instant(nanoseconds: 0) + bounds.wait)
        #expect(talk.effects.contains(.refuse(ClaimID(2), .busy)))
        #expect(talk.arbiter.lastWait(of: ClaimID(2))?.obstacle == ClaimID(1))
        #expect(talk.arbiter.lastWait(of: ClaimID(2))?.questions.isEmpty ?? false)
        #expect(talk.arbiter.lastWait(of: ClaimID(1)) == nil)
        talk.tell(.tick)
        #expect(talk.arbiter.lastWait(of: ClaimID(2)) == nil)
    }

    /// Rule N6: presenters of an item, of what is above it and of what is below it would hear of it.
    @Test func whoWouldHearIsKnown() {
        var talk = Conversation()
        let nowhere = Place()
        #expect(!talk.arbiter.isHeard(of: ItemID(1), at: nowhere))
        talk.tell(.placed(ItemID(1), Directory(in: nil)))
        talk.tell(.placed(ItemID(2), Directory(in: ItemID(1))))
        talk.tell(.placed(ItemID(3), Directory(in: ItemID(2))))
        talk.present(1, 2, in: 1, by: editor)
        #expect(talk.arbiter.isHeard(of: ItemID(2), at: Place(in: ItemID(1))))
        #expect(talk.arbiter.isHeard(of: ItemID(1), at: nowhere))
        #expect(talk.arbiter.isHeard(of: ItemID(30), at: Place(in: ItemID(3))))
        #expect(!talk.arbiter.isHeard(of: ItemID(10), at: Place(in: ItemID(1))))
    }

    /// Rules P18, P26: whom a deletion would be put to, of those above.
    @Test func whoWouldBeAskedAboveIsKnown() {
        var talk = Conversation()
        talk.tell(.placed(ItemID(1), Directory(in: nil)))
        talk.tell(.placed(ItemID(2), Directory(in: ItemID(1))))
        let (old, new) = (Place(in: ItemID(2), link: LinkID(1)), Place(in: ItemID(2), link: LinkID(2)))
        let isAsked = { (talk: Conversation, place: Place, party: Party) in
            talk.arbiter.isAskedAbove(aboutDeletionOf: ItemID(30), at: place, by: party)
        }
        #expect(!isAsked(talk, old, stranger))
        talk.present(1, 1, by: editor, [.subitemDidChange])
        #expect(!isAsked(talk, old, stranger))
        talk.present(2, 1, by: editor, [.subitemDidAppear, .accommodateSubitemDeletion])
        #expect(isAsked(talk, old, stranger))
        // P5.
        #expect(!isAsked(talk, old, editor) && !isAsked(talk, old, child))
        talk.tell(.created(ItemID(30), at: new, by: stranger, under: nil))
        #expect(!isAsked(talk, new, stranger) && isAsked(talk, old, stranger))
        talk.tick(at: talk.now + .seconds(1))
        #expect(isAsked(talk, new, stranger))
    }
}
