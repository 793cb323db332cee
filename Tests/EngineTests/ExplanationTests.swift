// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import Testing

import func TestSupport.eventually

@testable import struct CoordinationEngine.Explanation

/// What a waiting or refused claim is told, in words, through the engine.
@Suite struct ExplanationTests {
    private static let write = Access.write(.updating)

    @Test("who waits for a holder is told whom, and what that one does")
    func holder() throws {
        let stage = try Stage()
        let (make, cat) = (StandIn("make", 31), StandIn("cat", 32))
        let held = stage.claim(.handle, (Self.write, 1), by: make)
        let waits = stage.claim(.handle, (.read(), 1), by: cat)
        #expect(stage.reasons(of: waits) == ["cat (32) waits for make (31), who is writing file1"])
        #expect(stage.reasons(of: held) == [])
        stage.engine.end(held)
        #expect(cat.isGranted)
        stage.engine.end(waits)
    }

    @Test("the verb is that of the holder's access", arguments: [
        (Access.read(), "reading"), (.write(.forMerging), "writing"), (.write(.forDeleting), "deleting"),
        (.write(.forMoving), "moving"), (.write(.forReplacing), "replacing"),
    ])
    func verbs(access: Access, verb: String) throws {
        let stage = try Stage()
        let (one, other) = (StandIn("one", 31, purpose: "1"), StandIn("other", 32, purpose: "2"))
        let held = stage.claim(.aware, (access, 1), by: one)
        let waits = stage.claim(.aware, (Self.write, 1), by: other)
        #expect(stage.reasons(of: waits) == ["other (32) waits for one (31), who is \(verb) file1"])
        stage.engine.end(held)
        stage.engine.end(waits)
    }

    @Test("a chain goes through the queue to the holder, and to the presenter that is asked")
    func chain() throws {
        let stage = try Stage()
        let mailbox = Mailbox {}
        let nvim = StandIn("nvim", 640)
        let (presenter, document) = stage.present(1, by: nvim, in: mailbox)
        let (cat, sed) = (StandIn("cat", 712), StandIn("sed", 713))
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
        #expect(stage.engine.census(of: nil) == Census())
    }

    @Test("an access to two items shows both")
    func twoItems() throws {
        let stage = try Stage()
        let mover = StandIn("mover", 31, purpose: "1")
        let held = stage.claim(.aware, (.write(.forMoving), 1), (.write(.forReplacing), 2), by: mover)
        let reader = StandIn("reader", 32, purpose: "2")
        let waits = stage.claim(.aware, (.read(), 2), by: reader)
        let claim = try #require(stage.engine.census(of: nil).claims.first)
        #expect(claim.intents == [
            IntentReport(.write(.forMoving), StandIn.name(of: 1)),
            IntentReport(.write(.forReplacing), StandIn.name(of: 2)),
        ])
        // Of the two, the one that both are about.
        #expect(stage.reasons(of: waits) == ["reader (32) waits for mover (31), who is replacing file2"])
        stage.engine.end(held)
        stage.engine.end(waits)
    }

    @Test("a cycle is told from one to the next")
    func cycles() {
        let (a, b, child) = (StandIn("a", 712), StandIn("b", 640), StandIn("gcc", 641))
        for (stand, item) in [(a, 1 as UInt64), (b, 2), (child, 3)] { stand.set([(Self.write, item)]) }
        func text(_ steps: (StandIn, isWaiting: Bool)...) -> [String] {
            var explanation = Explanation()
            explanation.cycle = steps.map { Explanation.Step(claimant: $0, isWaiting: $1) }
            return explanation.sentences
        }
        #expect(
            text((a, true), (b, false), (b, true), (a, false)) == [
                "a (712) holds file1 and waits for b (640), who holds file2 and waits for a (712)"
            ])
        #expect(
            text((a, true), (b, false), (child, true), (a, false)) == [
                "a (712) holds file1 and waits for b (640), "
                    + "who holds file2 until gcc (641) is done, who waits for a (712)"
            ])
        #expect(
            text((a, true), (b, true), (child, true)) == [
                "a (712) waits for b (640), who waits for gcc (641), who waits for a (712)"
            ])
        #expect(
            text((child, true), (a, false), (a, true), (b, false)) == [
                "gcc (641) waits for a (712), who holds file1 and waits for b (640), "
                    + "who holds file2 until gcc (641) is done"
            ])
    }
}
