// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import Testing

import func TestSupport.eventually

@testable import struct CoordinationEngine.Explanation

/// Checks the sentences in which the engine explains why a claim waits or was refused.
@Suite struct ExplanationTests {
    private static let write = Access.write(.updating)

    @Test("the reason for a claim's wait names the holder, and what the holder does to the file")
    func theReasonForAClaimsWaitNamesTheHolder() throws {
        let stage = try EngineHarness()
        let (make, cat) = (StandInClaimant("make", 31), StandInClaimant("cat", 32))
        let held = stage.claim(.handle, (Self.write, 1), by: make)
        let waits = stage.claim(.handle, (.read(), 1), by: cat)
        #expect(stage.reasons(of: waits) == ["cat (32) waits for make (31), which is writing file1"])
        #expect(stage.reasons(of: held) == [])
        stage.engine.end(held)
        #expect(cat.isGranted)
        stage.engine.end(waits)
    }

    @Test(
        "the reason for a claim's wait uses the verb of the holder's access",
        arguments: [
            (Access.read(), "reading"), (.write(.forMerging), "writing"), (.write(.forDeleting), "deleting"),
            (.write(.forMoving), "moving"), (.write(.forReplacing), "replacing"),
        ])
    func theReasonForAClaimsWaitUsesTheVerbOfTheHoldersAccess(access: Access, verb: String) throws {
        let stage = try EngineHarness()
        let (one, other) = (
            StandInClaimant("one", 31, purpose: "1"), StandInClaimant("other", 32, purpose: "2")
        )
        let held = stage.claim(.aware, (access, 1), by: one)
        let waits = stage.claim(.aware, (Self.write, 1), by: other)
        #expect(stage.reasons(of: waits) == ["other (32) waits for one (31), which is \(verb) file1"])
        stage.engine.end(held)
        stage.engine.end(waits)
    }

    @Test("the reasons for a claim's wait lead through the claim before it to the presenter that was asked")
    func theReasonsForAClaimsWaitLeadToThePresenterThatWasAsked() throws {
        let stage = try EngineHarness()
        let mailbox = Mailbox {}
        let nvim = StandInClaimant("nvim", 640)
        let (presenter, document) = stage.present(1, by: nvim, in: mailbox)
        let (cat, sed) = (StandInClaimant("cat", 712), StandInClaimant("sed", 713))
        let first = stage.claim(.handle, (.read(), 1), by: cat)
        guard case .request(let question, .relinquishToReader, _, _)? = mailbox.take().first?.content else {
            Issue.record("nobody asked the presenter")
            return
        }
        stage.engine.answer(question, of: presenter, .done)
        let second = stage.claim(.handle, (Self.write, 1), by: sed)
        let reasons = stage.reasons(of: second)
        try #require(reasons.count == 2, "\(reasons)")
        #expect(reasons[0] == "sed (713) waits behind cat (712) for file1")
        #expect(reasons[1].hasPrefix("cat (712) waits for nvim (640) to save file1, asked 0."))
        #expect(reasons[1].hasSuffix(" s left"))
        #expect(reasons[1].contains(" s ago, 9.") || reasons[1].contains(" s ago, 10."))
        stage.engine.withdraw(second)
        stage.engine.withdraw(first)
        stage.engine.remove(presenter)
        #expect(document.releases == 1)
        #expect(stage.engine.snapshot(of: nil) == CoordinationSnapshot())
    }

    @Test(
        "the report of an access to two items shows both, and the reason for its wait names the item in conflict"
    )
    func theReportOfAnAccessToTwoItemsShowsBothItems() throws {
        let stage = try EngineHarness()
        let mover = StandInClaimant("mover", 31, purpose: "1")
        let held = stage.claim(.aware, (.write(.forMoving), 1), (.write(.forReplacing), 2), by: mover)
        let reader = StandInClaimant("reader", 32, purpose: "2")
        let waits = stage.claim(.aware, (.read(), 2), by: reader)
        let claim = try #require(stage.engine.snapshot(of: nil).claims.first)
        #expect(
            claim.intents == [
                IntentReport(.write(.forMoving), StandInClaimant.name(of: 1)),
                IntentReport(.write(.forReplacing), StandInClaimant.name(of: 2)),
            ])
        // One of the two claims has two items. The explanation contains the item that both claims need.
        #expect(stage.reasons(of: waits) == ["reader (32) waits for mover (31), which is replacing file2"])
        stage.engine.end(held)
        stage.engine.end(waits)
    }

    @Test("an access that times out gets the reason for which it waited")
    func anAccessThatTimesOutGetsTheReasonForItsWait() throws {
        var bounds = Bounds()
        bounds.wait = .milliseconds(50)
        let stage = try EngineHarness(bounds)
        let (one, other) = (
            StandInClaimant("one", 31, purpose: "1"), StandInClaimant("other", 32, purpose: "2")
        )
        let held = stage.claim(.aware, (Self.write, 1), by: one)
        stage.claim(.aware, (Self.write, 1), by: other)
        try eventually(within: .seconds(10), "the refusal") { other.refusal == .busy }
        #expect(other.explanation?.sentences == ["other (32) waits for one (31), which is writing file1"])
        #expect(other.explanation?.actors.map(\.pid) == [31])
        stage.engine.end(held)
    }

    @Test(
        "in a deadlock one claim is refused with an explanation, and the log and the counters report it")
    func aDeadlockIsExplainedAndLogged() throws {
        let stage = try EngineHarness()
        let (a, b) = (StandInClaimant("a", 712, purpose: "a"), StandInClaimant("b", 640, purpose: "b"))
        let x = stage.claim(.aware, (Self.write, 1), by: a)
        let y = stage.claim(.aware, (Self.write, 2), by: b)
        let a2 = StandInClaimant("a", 712, purpose: "a")
        let b2 = StandInClaimant("b", 640, purpose: "b")
        let second = stage.claim(.aware, (Self.write, 2), by: a2, within: [x])
        #expect(stage.reasons(of: second) == ["a (712) waits for b (640), which is writing file2"])
        stage.claim(.aware, (Self.write, 1), by: b2, within: [y])
        #expect(b2.refusal == .deadlock)
        let cycle = "a (712) holds file1 and waits for b (640), which holds file2 and waits for a (712)"
        #expect(b2.explanation?.sentences == [cycle])
        try eventually(within: .seconds(10), "the line in the log") {
            stage.log.all == ["deadlock: \(cycle); b (640) is refused"]
        }
        let report = stage.engine.report(options: EffectiveOptions(), dataPath: .undecided)
        #expect(report.counters.deadlocks == 1)
        #expect(report.journal.contains { $0.kind == .deadlock && $0.actor?.pid == 640 })
        stage.engine.end(y)
        #expect(a2.isGranted)
        stage.engine.end(second)
        stage.engine.end(x)
    }

    @Test(
        "if a holder's nested access waits, the reasons also name the program that blocks the nested access")
    func theReasonsForAWaitNameTheProgramThatBlocksAHoldersNestedAccess() throws {
        let stage = try EngineHarness()
        let (make, sed) = (
            StandInClaimant("make", 31, purpose: "1"), StandInClaimant("sed", 33, purpose: "3")
        )
        let inner = StandInClaimant("gcc", 32, ancestors: [31], purpose: "1")
        let outer = stage.claim(.aware, (Self.write, 1), by: make)
        let other = stage.claim(.aware, (Self.write, 2), by: sed)
        let nested = stage.claim(.aware, (Self.write, 2), by: inner, within: [outer])
        let cat = StandInClaimant("cat", 34, purpose: "4")
        let waits = stage.claim(.aware, (.read(), 1), by: cat)
        #expect(
            stage.reasons(of: waits) == [
                "cat (34) waits for make (31), which is writing file1",
                "make (31) holds file1 until gcc (32) has file2",
                "gcc (32) waits for sed (33), which is writing file2",
            ])
        for claim in [waits, nested, other, outer] { stage.engine.end(claim) }
    }

    @Test(
        "the reason for a wait names the package, or the directory above or below, in which two claims conflict"
    )
    func theReasonForAWaitNamesThePackageOrDirectoryInWhichClaimsConflict() throws {
        let stage = try EngineHarness()
        stage.engine.place(ItemID(50), DirectoryInfo(in: nil))
        stage.engine.place(ItemID(51), DirectoryInfo(in: ItemID(50), isPackage: true))
        let (one, other) = (
            StandInClaimant("one", 31, purpose: "1"), StandInClaimant("other", 32, purpose: "2")
        )
        let part = stage.claim(.aware, (Self.write, 1), by: one, in: 51)
        let sibling = stage.claim(.aware, (.read(), 2), by: other, in: 51)
        #expect(
            stage.reasons(of: sibling) == [
                "other (32) waits for one (31), which is writing file1 in the same package"
            ])
        stage.engine.end(sibling)
        let mover = StandInClaimant("mover", 33, purpose: "3")
        let moves = stage.claim(.aware, (.write(.forMoving), 50), by: mover)
        #expect(
            stage.reasons(of: moves) == ["mover (33) waits for one (31), which is writing file1 below it"])
        stage.engine.end(part)
        #expect(mover.isGranted)
        let late = stage.claim(.aware, (.read(), 3), by: other, in: 50)
        #expect(
            stage.reasons(of: late) == [
                "other (32) waits for mover (33), which is moving file50, which it is in"
            ])
        stage.engine.end(late)
        stage.engine.end(moves)
    }

    @Test("the sentence about a deadlock names each program of the cycle and the program for which it waits")
    func theSentenceAboutADeadlockNamesEachProgram() {
        let (a, b, child) = (
            StandInClaimant("a", 712), StandInClaimant("b", 640), StandInClaimant("gcc", 641)
        )
        for (stand, item) in [(a, 1 as UInt64), (b, 2), (child, 3)] { stand.set([(Self.write, item)]) }
        func text(_ steps: (StandInClaimant, isWaiting: Bool)...) -> [String] {
            var explanation = Explanation()
            explanation.cycle = steps.map { Explanation.CycleMember(claimant: .claimant($0), isWaiting: $1) }
            return explanation.sentences
        }
        #expect(
            text((a, true), (b, false), (b, true), (a, false)) == [
                "a (712) holds file1 and waits for b (640), which holds file2 and waits for a (712)"
            ])
        #expect(
            text((a, true), (b, false), (child, true), (a, false)) == [
                "a (712) holds file1 and waits for b (640), "
                    + "which holds file2 until gcc (641) is done, which waits for a (712)"
            ])
        #expect(
            text((a, true), (b, true), (child, true)) == [
                "a (712) waits for b (640), which waits for gcc (641), which waits for a (712)"
            ])
        #expect(
            text((child, true), (a, false), (a, true), (b, false)) == [
                "gcc (641) waits for a (712), which holds file1 and waits for b (640), "
                    + "which holds file2 until gcc (641) is done"
            ])
    }
}
