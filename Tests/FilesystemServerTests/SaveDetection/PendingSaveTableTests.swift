// SPDX-License-Identifier: Apache-2.0
import Coordination
import FilesystemServer
import Testing

private let vim = SaveTrace.program(200, parent: 60, session: 60)
private let stranger = SaveTrace.program(300, parent: 70, session: 70)
private let start = Instant(nanoseconds: 0)

@Suite("Pending saves")
struct PendingSaveTableTests {
    private func pendingSave(
        _ name: String, by saver: SavingProcess = vim, in directory: NodeNumber = SaveTrace.folder,
        at opened: Instant = start, audience: PendingSave.Audience = .users,
        evidence: PendingSave.Evidence = .backupName
    ) -> PendingSave {
        PendingSave(
            directory: directory, name: Array(name.utf8), document: SaveTrace.document,
            oldNode: NodeNumber(9),
            saver: saver, evidence: evidence, audience: audience, opened: opened,
            claim: ClaimID(1))
    }

    private func open(_ pendingSave: PendingSave, in table: inout PendingSaveTable) {
        let isOpen = table.open(pendingSave)
        #expect(isOpen)
    }

    private func names(_ pendingSaves: [PendingSave]) -> [String] {
        pendingSaves.map { String(decoding: $0.name, as: UTF8.self) }
    }

    @Test("a pending save ends 2 s after its saver's last operation")
    func aPendingSaveEndsAfterTwoIdleSeconds() {
        var table = PendingSaveTable()
        open(pendingSave("a"), in: &table)
        #expect(table.nextDeadline == start + .seconds(2))
        table.noteActivity(by: vim, at: start + .milliseconds(1_500))
        table.noteActivity(by: stranger, at: start + .milliseconds(1_900))
        #expect(table.nextDeadline == start + .milliseconds(3_500))
        #expect(table.takeExpired(at: start + .milliseconds(3_499)) == [])
        #expect(names(table.takeExpired(at: start + .milliseconds(3_500))) == ["a"])
        #expect(table.isEmpty)
        #expect(table.nextDeadline == nil)
    }

    @Test("a pending save ends after 10 s, however busy its saver is")
    func aPendingSaveEndsAfterTenSeconds() {
        var table = PendingSaveTable()
        open(pendingSave("a"), in: &table)
        for second in 1..<10 { table.noteActivity(by: vim, at: start + .seconds(UInt64(second))) }
        open(pendingSave("b", at: start + .seconds(9)), in: &table)
        #expect(table.nextDeadline == start + .seconds(10))
        #expect(names(table.takeExpired(at: start + .seconds(10))) == ["a"])
        #expect(table.nextDeadline == start + .seconds(11))
    }

    @Test(
        "if only the removal itself is evidence of a save, the pending save ends after 250 ms; other pending saves stay"
    )
    func aPendingSaveWithOnlyARemovalAsEvidenceEndsAfter250Ms() {
        var table = PendingSaveTable()
        open(pendingSave("b"), in: &table)
        open(pendingSave("a", evidence: .removal), in: &table)
        #expect(table.nextDeadline == start + .milliseconds(250))
        table.noteActivity(by: vim, at: start + .milliseconds(200))
        #expect(table.takeExpired(at: start + .milliseconds(249)) == [])
        #expect(names(table.takeExpired(at: start + .milliseconds(250))) == ["a"])
        #expect(table.nextDeadline == start + .milliseconds(2_200))
    }

    @Test(
        "if only the removal itself is evidence of a save, only the removing program or its child completes the save"
    )
    func aPendingSaveWithOnlyARemovalAsEvidenceIsCompletedOnlyByItsProgram() {
        let child = SaveTrace.program(201, parent: 200, session: 60)
        let sibling = SaveTrace.program(202, parent: 60, session: 60)
        for (saver, isSave) in [(vim, true), (child, true), (sibling, false), (stranger, false)] {
            var table = PendingSaveTable()
            let vacated = pendingSave("a", evidence: .removal)
            open(vacated, in: &table)
            let fill = table.resolveFill(Array("a".utf8), in: SaveTrace.folder, by: saver)
            #expect(fill == (isSave ? .save(vacated) : .change(vacated)), "\(saver)")
        }
    }

    @Test(
        "if only the removal itself is evidence of a save, a directory or link under the name does not complete the save"
    )
    func aPendingSaveWithOnlyARemovalAsEvidenceIsCompletedOnlyByAFile() {
        for evidence in [PendingSave.Evidence.removal, .move, .backupName] {
            var table = PendingSaveTable()
            let vacated = pendingSave("a", evidence: evidence)
            open(vacated, in: &table)
            let fill = table.resolveFill(Array("a".utf8), in: SaveTrace.folder, by: vim, isFile: false)
            #expect(fill == (evidence == .backupName ? .save(vacated) : .change(vacated)))
        }
    }

    @Test("when a document's move is confirmed, its pending save ends, and other pending saves stay")
    func aConfirmedMoveEndsItsPendingSave() {
        var table = PendingSaveTable()
        let resolveMove = { (table: inout PendingSaveTable, number: UInt64) in
            table.resolveMove(NodeNumber(number)).map { String(decoding: $0.name, as: UTF8.self) }
        }
        open(pendingSave("a", evidence: .move), in: &table)
        let elsewhere = resolveMove(&table, 8)
        #expect(elsewhere == nil)
        let moved = resolveMove(&table, 9)
        #expect(moved == "a")
        #expect(table.isEmpty)
        for evidence in [PendingSave.Evidence.removal, .backupName] {
            open(pendingSave("a", evidence: evidence), in: &table)
            let other = resolveMove(&table, 9)
            #expect(other == nil)
        }
    }

    @Test("an operation by a child of the saver prolongs the pending save")
    func aChildsOperationProlongsThePendingSave() {
        var table = PendingSaveTable()
        open(pendingSave("a"), in: &table)
        table.noteActivity(by: SaveTrace.program(201, parent: 200, session: 1), at: start + .seconds(1))
        #expect(table.nextDeadline == start + .seconds(3))
    }

    @Test("other programs wait for the name of a pending save; the saver does not")
    func otherProgramsWaitForTheNameOfAPendingSaveButTheSaverDoesNot() {
        var table = PendingSaveTable()
        open(pendingSave("b"), in: &table)
        open(pendingSave("a"), in: &table)
        open(pendingSave("c", audience: .listeners), in: &table)
        let name = Array("a".utf8)
        #expect(table.pendingSave(of: name, in: SaveTrace.folder, for: stranger) != nil)
        #expect(table.pendingSave(of: name, in: SaveTrace.folder, for: nil) != nil)
        #expect(table.pendingSave(of: name, in: SaveTrace.folder, for: vim) == nil)
        #expect(table.pendingSave(of: name, in: NodeNumber(2), for: stranger) == nil)
        // A program that lists the folder waits for the pending saves of other programs. A save with the audience `.listeners`
        // is left out.
        #expect(names(table.pendingSaves(in: SaveTrace.folder, for: stranger)) == ["a", "b"])
        #expect(table.pendingSaves(in: SaveTrace.folder, for: vim) == [])
        #expect(table.pendingSaves(in: NodeNumber(2), for: stranger) == [])
    }

    @Test("a pending save lasts until a file gets the missing name")
    func aPendingSaveLastsUntilAFileGetsTheMissingName() {
        var table = PendingSaveTable()
        let first = pendingSave("a")
        open(first, in: &table)
        #expect(table.isOpen(first))
        #expect(table.resolveFill(Array("a".utf8), in: SaveTrace.folder, by: vim) != nil)
        #expect(!table.isOpen(first))
        open(pendingSave("a", at: start + .seconds(1)), in: &table)
        #expect(!table.isOpen(first))
    }

    @Test(
        "a saver's exit ends the saver's pending saves, the oldest first, and no pending save of another saver"
    )
    func aSaversExitEndsItsPendingSaves() {
        var table = PendingSaveTable()
        open(pendingSave("z"), in: &table)
        open(pendingSave("a", at: start + .milliseconds(1)), in: &table)
        open(pendingSave("s", by: stranger), in: &table)
        #expect(names(table.takeExited(vim.process)) == ["z", "a"])
        #expect(table.savers == [stranger])
        #expect(table.count == 1)
    }

    @Test("a second pending save of a name replaces the first, and its time starts anew")
    func aSecondPendingSaveOfANameReplacesTheFirst() {
        var table = PendingSaveTable()
        open(pendingSave("a"), in: &table)
        open(pendingSave("a", by: stranger, at: start + .seconds(1)), in: &table)
        #expect(table.count == 1)
        #expect(table.savers == [stranger])
        #expect(table.nextDeadline == start + .seconds(3))
    }

    @Test("above the limit of pending saves, no further pending save begins")
    func aboveTheLimitNoPendingSaveBegins() {
        var table = PendingSaveTable()
        for number in 0..<SaveLimits.mostPendingSaves { open(pendingSave("\(number)"), in: &table) }
        let isOpen = table.open(pendingSave("one more"))
        #expect(!isOpen)
        #expect(table.resolveFill(Array("0".utf8), in: SaveTrace.folder, by: vim) != nil)
        open(pendingSave("one more"), in: &table)
    }

    @Test("the next deadline is the oldest pending save's, in whichever order other pending saves complete")
    func theNextDeadlineIsThatOfTheOldestPendingSave() {
        var table = PendingSaveTable()
        for second in 0..<4 {
            open(pendingSave("\(second)", at: start + .seconds(UInt64(second))), in: &table)
        }
        for name in ["1", "0", "3"] {
            #expect(table.resolveFill(Array(name.utf8), in: SaveTrace.folder, by: vim) != nil)
        }
        table.noteActivity(by: vim, at: start + .seconds(11))
        #expect(table.nextDeadline == start + .seconds(12))
        #expect(names(table.takeExpired(at: start + .seconds(12))) == ["2"])
    }
}
