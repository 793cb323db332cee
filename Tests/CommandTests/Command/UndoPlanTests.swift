// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Testing

@testable import truce

/// What `truce undo` decides from the history of a mount.
@Suite("The plan of an undo")
struct UndoPlanTests {
    private static let version = "00000000000a0000"

    private func steps(_ events: (kind: String, path: String, by: String)...) -> [String: UndoStep.Decision] {
        Dictionary(
            uniqueKeysWithValues: list(events).map {
                (String(decoding: $0.path, as: UTF8.self), $0.decision)
            })
    }

    private func list(_ events: [(kind: String, path: String, by: String)]) -> [UndoStep] {
        var forms: [HistoryEventForm] = []
        for (number, event) in events.enumerated() {
            let names = event.path.split(separator: ">").map { Array($0.utf8) }
            let isRun = event.by == "agent"
            let actor = HistoryActorForm(
                program: event.by, pid: 7, user: 0, run: isRun ? "agent" : nil, runPid: isRun ? 70 : nil,
                runID: isRun ? "5-1" : nil)
            var form = HistoryEventForm(
                number: UInt64(number + 1), time: Double(number), kind: event.kind, path: names[0],
                newPath: names.count > 1 ? names[1] : nil, actor: actor)
            form.generation = "g\(number)"
            if event.kind == "written", let target = form.newPath {
                // In these tests, `a>b` of a write means that `a` was renamed over `b`.
                form = HistoryEventForm(
                    number: form.number, time: form.time, kind: "written", path: Array(target.utf8),
                    source: names[0], actor: actor)
                form.generation = "g\(number)"
            }
            if event.kind == "preserved" { (form.version, form.detail) = (Self.version, "write") }
            if event.kind == "empty" { (form.kind, form.detail) = ("preserved", "empty") }
            forms.append(form)
        }
        let agent = HistoryActorForm(
            program: "", pid: nil, user: 0, run: "agent", runPid: 70, runID: "5-1")
        return UndoPlan(of: agent, in: forms).steps
    }

    @Test("a program that names itself like a run, or like a program of another user, is no part of it")
    func aNameAloneIsNoRun() {
        let actor = { (user: UInt32, id: String?) in
            HistoryActorForm(program: "sh", pid: 7, user: user, run: "agent", runPid: nil, runID: id)
        }
        #expect(actor(1, "5-1").isSameRun(as: actor(0, "5-1")) && actor(1, nil).isSameRun(as: actor(1, nil)))
        #expect(!actor(1, nil).isSameRun(as: actor(2, nil)) && !actor(1, nil).isSameRun(as: actor(1, "5-1")))
        #expect(!actor(1, "5-1").isSameRun(as: actor(1, "5-2")))
    }

    @Test("a document goes back to the version before the run's first write")
    func aDocumentGoesBack() {
        let steps = steps(
            ("preserved", "a", "agent"), ("written", "a", "agent"), ("written", "a", "agent"),
            ("written", "b", "vim"))
        #expect(steps == ["a": .restore(version: Self.version, from: "g2")])
    }

    @Test("a document that another program has written since stays, and so does one written in between")
    func aDocumentOfAnotherProgramStays() {
        let steps = steps(
            ("preserved", "a", "agent"), ("written", "a", "agent"), ("written", "a", "vim"),
            ("preserved", "b", "agent"), ("written", "b", "agent"), ("written", "b", "vim"),
            ("preserved", "b", "agent"), ("written", "b", "agent"))
        let hint = "; version \(Self.version) has the contents before the run"
        #expect(
            steps == [
                "a": .stays("vim (7) has changed it since\(hint)"),
                "b": .stays("vim (7) has changed it between two writes of the run\(hint)"),
            ])
    }

    @Test("a document follows its moves and those of directories above it")
    func aDocumentFollowsItsMoves() {
        let steps = steps(
            ("preserved", "d/a", "agent"), ("written", "d/a", "agent"), ("moved", "d>e", "mv"),
            ("moved", "e/a>b", "agent"))
        #expect(steps == ["b": .restore(version: Self.version, from: "g1")])
    }

    @Test("a file that the run made is removed only on request, and an empty document becomes empty again")
    func aNewFileAndAnEmptyDocument() {
        let steps = steps(
            ("created", "a", "agent"), ("written", "a", "agent"), ("empty", "b", "agent"),
            ("written", "b", "agent"), ("preserved", "c", "agent"), ("deleted", "c", "agent"),
            ("created", "c", "agent"), ("created", "d", "agent"), ("deleted", "d", "agent"))
        #expect(
            steps == [
                "a": .remove(from: "g1"), "b": .empty(from: "g3"),
                "c": .restore(version: Self.version, from: "g6"),
            ])
    }

    @Test("a file that the run renamed over a document is a step of the run's write")
    func aRenamedFileIsAStep() {
        let steps = steps(
            ("created", "new", "agent"), ("preserved", "a", "agent"), ("written", "new>a", "agent"),
            ("preserved", "b", "agent"), ("written", "b", "agent"), ("preserved", "c", "agent"),
            ("written", "b>c", "agent"))
        #expect(
            steps == [
                "a": .restore(version: Self.version, from: "g2"),
                "b": .remake(version: Self.version),
                "c": .restore(version: Self.version, from: "g6"),
            ])
    }

    @Test("a deleted document is made again, and a document without a version stays")
    func aDeletedDocumentIsMadeAgain() {
        let steps = steps(
            ("preserved", "a", "agent"), ("deleted", "a", "agent"), ("written", "b", "agent"),
            ("empty", "c", "agent"), ("deleted", "c", "agent"), ("deleted", "d", "agent"))
        #expect(
            steps == [
                "a": .remake(version: Self.version),
                "b": .stays("no version from before the run was preserved"),
                "c": .remake(version: nil),
                "d": .stays("the run deleted it, and no version of it is preserved"),
            ])
    }

    @Test("what the run only moved stays, and is listed with the place from which it came")
    func movesAreListed() {
        let steps = steps(
            ("moved", "a>b", "agent"), ("moved", "b>c", "agent"), ("moved", "d>e", "agent"),
            ("moved", "e>d", "agent"), ("moved", "f>g", "mv"), ("created", "h", "agent"),
            ("moved", "h>i", "agent"))
        #expect(steps == ["c": .stays("the run moved it from a"), "i": .remove(from: "g5")])
    }

    @Test("a document that the run renamed over another one is listed, and the other one goes back")
    func aReplacingDocumentIsListed() {
        let steps = steps(("preserved", "b", "agent"), ("written", "a>b", "agent"), ("written", "c>d", "vim"))
        #expect(
            steps == [
                "a": .stays("the run renamed it over b, which has its contents, or a version of it"),
                "b": .restore(version: Self.version, from: "g1"),
            ])
    }

    @Test(
        "a document whose name another file has got by a move is listed, and the other one is not mixed with it"
    )
    func aDisplacedDocumentIsListed() {
        let hint = "version \(Self.version) has the contents before the run"
        let steps = steps(
            ("preserved", "a", "agent"), ("deleted", "a", "agent"), ("moved", "link>a", "mv"),
            ("preserved", "b", "agent"), ("deleted", "b", "agent"), ("preserved", "c", "agent"),
            ("written", "c", "agent"), ("deleted", "c", "vim"))
        #expect(
            steps == [
                "a": .stays("another file has its name now; \(hint)"), "b": .remake(version: Self.version),
                "c": .stays("vim (7) has deleted it since; \(hint)"),
            ])
    }

    @Test("a deleted directory is made again before its files, and what the run made is removed from below")
    func directoriesAreInOrder() {
        let steps = list([
            ("created", "n", "agent"), ("created", "n/a", "agent"), ("preserved", "d/e/a", "agent"),
            ("deleted", "d/e/a", "agent"), ("deleted", "d/e", "agent"), ("deleted", "d", "agent"),
            ("deleted", "f", "agent"),
        ])
        #expect(
            steps.map { String(decoding: $0.path, as: UTF8.self) } == ["d", "d/e", "d/e/a", "f", "n/a", "n"])
        #expect(
            steps.map(\.decision) == [
                .remakeDirectory, .remakeDirectory, .remake(version: Self.version),
                .stays("the run deleted it, and no version of it is preserved"), .remove(from: "g1"),
                .remove(from: "g0"),
            ])
    }
}
