// SPDX-License-Identifier: Apache-2.0
import CoordinatedFilesystem
import Coordination
import Testing

private let vim = Stage.program(200, parent: 60, session: 60)
private let stranger = Stage.program(300, parent: 70, session: 70)
private let start = Instant(nanoseconds: 0)

@Suite("Vacated names")
struct VacancyTableTests {
    private func vacancy(
        _ name: String, by actor: Actor = vim, in directory: NodeNumber = Stage.folder,
        at opened: Instant = start, audience: Vacancy.Audience = .users,
        evidence: Vacancy.Evidence = .backupName
    ) -> Vacancy {
        Vacancy(
            directory: directory, name: Array(name.utf8), document: Stage.document, oldNode: NodeNumber(9),
            actor: actor, evidence: evidence, audience: audience, opened: opened,
            claim: ClaimID(1))
    }

    private func open(_ vacancy: Vacancy, in table: inout VacancyTable) {
        let isOpen = table.open(vacancy)
        #expect(isOpen)
    }

    private func names(_ vacancies: [Vacancy]) -> [String] {
        vacancies.map { String(decoding: $0.name, as: UTF8.self) }
    }

    @Test("a window ends 2 s after its actor's last operation")
    func idle() {
        var table = VacancyTable()
        open(vacancy("a"), in: &table)
        #expect(table.nextDeadline == start + .seconds(2))
        table.touched(by: vim, at: start + .milliseconds(1_500))
        table.touched(by: stranger, at: start + .milliseconds(1_900))
        #expect(table.nextDeadline == start + .milliseconds(3_500))
        #expect(table.expired(at: start + .milliseconds(3_499)) == [])
        #expect(names(table.expired(at: start + .milliseconds(3_500))) == ["a"])
        #expect(table.isEmpty)
        #expect(table.nextDeadline == nil)
    }

    @Test("however busy its actor, a window ends after 10 s")
    func longest() {
        var table = VacancyTable()
        open(vacancy("a"), in: &table)
        for second in 1..<10 { table.touched(by: vim, at: start + .seconds(UInt64(second))) }
        open(vacancy("b", at: start + .seconds(9)), in: &table)
        #expect(table.nextDeadline == start + .seconds(10))
        #expect(names(table.expired(at: start + .seconds(10))) == ["a"])
        #expect(table.nextDeadline == start + .seconds(11))
    }

    @Test("a window that only the step speaks for ends after 250 ms, and others of its actor stay")
    func step() {
        var table = VacancyTable()
        open(vacancy("b"), in: &table)
        open(vacancy("a", evidence: .removal), in: &table)
        #expect(table.nextDeadline == start + .milliseconds(250))
        table.touched(by: vim, at: start + .milliseconds(200))
        #expect(table.expired(at: start + .milliseconds(249)) == [])
        #expect(names(table.expired(at: start + .milliseconds(250))) == ["a"])
        #expect(table.nextDeadline == start + .milliseconds(2_200))
    }

    @Test("only the program itself, or its child, saves by a step alone")
    func stepOfOneProgram() {
        let child = Stage.program(201, parent: 200, session: 60)
        let sibling = Stage.program(202, parent: 60, session: 60)
        for (actor, isSave) in [(vim, true), (child, true), (sibling, false), (stranger, false)] {
            var table = VacancyTable()
            let vacated = vacancy("a", evidence: .removal)
            open(vacated, in: &table)
            let fill = table.fills(Array("a".utf8), in: Stage.folder, by: actor)
            #expect(fill == (isSave ? .save(vacated) : .change(vacated)), "\(actor)")
        }
    }

    @Test("where only the step speaks for a save, a directory or a link in its place is none")
    func otherKind() {
        for evidence in [Vacancy.Evidence.removal, .move, .backupName] {
            var table = VacancyTable()
            let vacated = vacancy("a", evidence: evidence)
            open(vacated, in: &table)
            let fill = table.fills(Array("a".utf8), in: Stage.folder, by: vim, isFile: false)
            #expect(fill == (evidence == .backupName ? .save(vacated) : .change(vacated)))
        }
    }

    @Test("the window of a document that was moved ends when it stays there, and no other window does")
    func stays() {
        var table = VacancyTable()
        let stays = { (table: inout VacancyTable, number: UInt64) in
            table.stays(NodeNumber(number)).map { String(decoding: $0.name, as: UTF8.self) }
        }
        open(vacancy("a", evidence: .move), in: &table)
        let elsewhere = stays(&table, 8)
        #expect(elsewhere == nil)
        let moved = stays(&table, 9)
        #expect(moved == "a")
        #expect(table.isEmpty)
        for evidence in [Vacancy.Evidence.removal, .backupName] {
            open(vacancy("a", evidence: evidence), in: &table)
            let other = stays(&table, 9)
            #expect(other == nil)
        }
    }

    @Test("a child's operation keeps its parent's windows open")
    func family() {
        var table = VacancyTable()
        open(vacancy("a"), in: &table)
        table.touched(by: Stage.program(201, parent: 200, session: 1), at: start + .seconds(1))
        #expect(table.nextDeadline == start + .seconds(3))
    }

    @Test("others wait for the name; the actor sees the truth")
    func whoWaits() {
        var table = VacancyTable()
        open(vacancy("b"), in: &table)
        open(vacancy("a"), in: &table)
        open(vacancy("c", audience: .listeners), in: &table)
        let name = Array("a".utf8)
        #expect(table.vacancy(of: name, in: Stage.folder, for: stranger) != nil)
        #expect(table.vacancy(of: name, in: Stage.folder, for: nil) != nil)
        #expect(table.vacancy(of: name, in: Stage.folder, for: vim) == nil)
        #expect(table.vacancy(of: name, in: NodeNumber(2), for: stranger) == nil)
        // A listing waits for documents that others use.
        #expect(names(table.vacancies(in: Stage.folder, for: stranger)) == ["a", "b"])
        #expect(table.vacancies(in: Stage.folder, for: vim) == [])
        #expect(table.vacancies(in: NodeNumber(2), for: stranger) == [])
    }

    @Test("a window is open until its name is filled")
    func isOpen() {
        var table = VacancyTable()
        let first = vacancy("a")
        open(first, in: &table)
        #expect(table.isOpen(first))
        #expect(table.fills(Array("a".utf8), in: Stage.folder, by: vim) != nil)
        #expect(!table.isOpen(first))
        open(vacancy("a", at: start + .seconds(1)), in: &table)
        #expect(!table.isOpen(first))
    }

    @Test("the exit of the actor ends its windows and no others, oldest first")
    func exit() {
        var table = VacancyTable()
        open(vacancy("z"), in: &table)
        open(vacancy("a", at: start + .milliseconds(1)), in: &table)
        open(vacancy("s", by: stranger), in: &table)
        #expect(names(table.actorExited(vim.process)) == ["z", "a"])
        #expect(table.actors == [stranger])
        #expect(table.count == 1)
    }

    @Test("a name vacated again is one window, counted from the second time")
    func again() {
        var table = VacancyTable()
        open(vacancy("a"), in: &table)
        open(vacancy("a", by: stranger, at: start + .seconds(1)), in: &table)
        #expect(table.count == 1)
        #expect(table.actors == [stranger])
        #expect(table.nextDeadline == start + .seconds(3))
    }

    @Test("beyond the limit no window opens")
    func limit() {
        var table = VacancyTable()
        for number in 0..<EpisodeLimits.openVacancies { open(vacancy("\(number)"), in: &table) }
        let isOpen = table.open(vacancy("one more"))
        #expect(!isOpen)
        #expect(table.fills(Array("0".utf8), in: Stage.folder, by: vim) != nil)
        open(vacancy("one more"), in: &table)
    }

    @Test("windows filled in any order leave the deadline of the oldest that is open")
    func outOfOrder() {
        var table = VacancyTable()
        for second in 0..<4 {
            open(vacancy("\(second)", at: start + .seconds(UInt64(second))), in: &table)
        }
        for name in ["1", "0", "3"] {
            #expect(table.fills(Array(name.utf8), in: Stage.folder, by: vim) != nil)
        }
        table.touched(by: vim, at: start + .seconds(11))
        #expect(table.nextDeadline == start + .seconds(12))
        #expect(names(table.expired(at: start + .seconds(12))) == ["2"])
    }
}
