// SPDX-License-Identifier: Apache-2.0
import CoordinatedFilesystem
import Coordination
import Testing

private let vim = Stage.program(200, parent: 60, session: 60)
private let emacs = Stage.program(210, parent: 61, session: 61)
private let stranger = Stage.program(300, parent: 70, session: 70)

@Suite("Saves (idioms.md section 4, patterns A, B, C, D, G and I)")
struct SavePatternTests {
    @Test("C: vim's default save is one write on the document")
    func vimDefault() {
        var stage = Stage(with: "report.txt")
        stage.create(".report.txt.swp", vim)
        stage.create("4913", vim)
        stage.unlink("4913", vim)
        stage.rename("report.txt", to: "report.txt~", vim)
        stage.create("report.txt", vim)
        stage.unlink("report.txt~", vim)
        #expect(stage.told == ["vacated report.txt", "save report.txt"])
        #expect(stage.vacancies.isEmpty)
    }

    @Test("C: an 80 MB document is missing for 1.6 s, its swap being written meanwhile")
    func vimLarge() {
        var stage = Stage(with: "report.txt")
        stage.create(".report.txt.swp", vim)
        stage.rename("report.txt", to: "report.txt~", vim)
        stage.wait(.milliseconds(1_600))
        stage.create("report.txt", vim)
        #expect(stage.told == ["vacated report.txt", "save report.txt"])
    }

    @Test("C: emacs' first save of a session, without any swap file")
    func emacsBackup() {
        var stage = Stage(with: "report.txt")
        stage.rename("report.txt", to: "report.txt~", emacs)
        stage.create("report.txt", emacs)
        #expect(stage.told == ["vacated report.txt", "save report.txt"])
    }

    @Test("C, 4r: sed -i.bak renames the document aside and its temp file into place")
    func sedBackup() {
        var stage = Stage(with: "report.txt")
        stage.create("sedq3Fa91", vim)
        stage.rename("report.txt", to: "report.txt.bak", vim)
        stage.rename("sedq3Fa91", to: "report.txt", vim)
        #expect(stage.told == ["vacated report.txt", "save report.txt"])
    }

    @Test("C: a swap file is evidence however old it is, while its maker lives")
    func oldSwap() {
        var stage = Stage(with: "report.txt")
        stage.create(".report.txt.swp", vim)
        stage.wait(.seconds(86_400))
        stage.rename("report.txt", to: "elsewhere", vim)
        #expect(stage.told == ["vacated report.txt"])
    }

    @Test("C: of the temp files of one program only its own document's counts")
    func otherDocumentsSwap() {
        var stage = Stage(with: "report.txt", "letter.txt")
        stage.create(".letter.txt.swp", vim)
        stage.rename("report.txt", to: "elsewhere", vim)
        #expect(stage.told == [])
    }

    @Test("C: somebody else's swap file proves nothing")
    func strangersSwap() {
        var stage = Stage(with: "report.txt")
        stage.create(".report.txt.swp", vim)
        stage.rename("report.txt", to: "elsewhere", stranger)
        #expect(stage.told == [])
    }

    @Test("D: git checkout unlinks and creates; the program list is the evidence")
    func gitCheckout() {
        var stage = Stage(with: "report.txt")
        stage.unlink("report.txt", vim, program: "git")
        stage.create("report.txt", vim)
        #expect(stage.told == ["vacated report.txt", "save report.txt"])
    }

    @Test("D, 6r: a program outside the list unlinks, then renames its temp file into place")
    func unlinkThenRename() {
        var stage = Stage(with: "a.zip")
        stage.create("ziq3Fa91", vim)
        stage.unlink("a.zip", vim, program: "archiver")
        stage.rename("ziq3Fa91", to: "a.zip", vim)
        #expect(stage.told == ["vacated a.zip", "save a.zip"])
    }

    @Test("D: rm is a deletion, at once")
    func remove() {
        var stage = Stage(with: "report.txt")
        stage.unlink("report.txt", vim, program: "rm")
        #expect(stage.told == [])
    }

    @Test("G: vim takes its backup back after a CREATE that failed, and nothing has happened")
    func rollBack() {
        var stage = Stage(with: "report.txt")
        stage.rename("report.txt", to: "report.txt~", vim)
        stage.rename("report.txt~", to: "report.txt", vim)
        #expect(stage.told == ["vacated report.txt", "nothing report.txt"])
        #expect(stage.vacancies.isEmpty)
    }

    @Test("G: somebody else who gives the old file its name back makes a change")
    func rollBackByStranger() {
        var stage = Stage(with: "report.txt")
        stage.rename("report.txt", to: "report.txt~", vim)
        stage.rename("report.txt~", to: "report.txt", stranger)
        #expect(stage.told == ["vacated report.txt", "change report.txt"])
    }

    @Test("I: vim's 4913 is created and unlinked empty, and vacates nothing")
    func probe() throws {
        var stage = Stage()
        stage.create("4913", vim)
        let node = try #require(stage.node("4913"))
        #expect(stage.recogniser.isProbe(unlinking: node, size: 0, by: vim))
        #expect(!stage.recogniser.isProbe(unlinking: node, size: 1, by: vim))
        #expect(!stage.recogniser.isProbe(unlinking: node, size: 0, by: stranger))
        #expect(!stage.recogniser.isProbe(unlinking: node, size: 0, by: nil))
        stage.unlink("4913", vim, program: "git")
        #expect(stage.told == [])
    }

    @Test("A and I: a released write handle is an update only if something changed under it")
    func inPlace() {
        let before = InPlaceWrite.Stamp(size: 5, modifiedNanoseconds: 10, changedNanoseconds: 10)
        let after = InPlaceWrite.Stamp(size: 5, modifiedNanoseconds: 10, changedNanoseconds: 11)
        let probe = InPlaceWrite(by: vim, truncates: false, before: before)
        #expect(probe.outcome(released: before) == .nothing)
        #expect(probe.outcome(released: after) == .update)
        #expect(InPlaceWrite(by: vim, truncates: true, before: before).outcome(released: before) == .update)
    }

    @Test("A: GIMP truncates a document twice for one save; a second later it is another save")
    func twoPasses() {
        let stamp = InPlaceWrite.Stamp(size: 5, modifiedNanoseconds: 10, changedNanoseconds: 10)
        let first = InPlaceWrite(by: vim, truncates: true, before: stamp)
        let ended = Instant(nanoseconds: 0)
        func continues(_ write: InPlaceWrite, after span: Span) -> Bool {
            write.continues(first, endedAt: ended, at: ended + span)
        }
        #expect(continues(first, after: .milliseconds(516)))
        #expect(!continues(first, after: .milliseconds(1_001)))
        #expect(!continues(InPlaceWrite(by: stranger, truncates: true, before: stamp), after: .seconds(0)))
        #expect(!continues(InPlaceWrite(by: vim, truncates: false, before: stamp), after: .seconds(0)))
    }
}

@Suite("What a rename over a document is (pattern B)")
struct ReplacementTests {
    @Test("B: a new file renamed over the document by its maker is an update")
    func safeSave() {
        var stage = Stage(with: "report.txt")
        stage.create("next", vim)
        stage.rename("next", to: "report.txt", vim)
        #expect(stage.told == ["update report.txt"])
    }

    @Test("B: `sed D >T && mv T D` are siblings of one shell; the maker of T is gone at the rename")
    func pipeline() {
        let (sed, mv) = (Stage.program(201), Stage.program(202))
        var stage = Stage(with: "report.txt")
        stage.create("next", sed)
        stage.exit(sed)
        stage.wait(.milliseconds(25))
        stage.rename("next", to: "report.txt", mv)
        #expect(stage.told == ["update report.txt"])
    }

    @Test("B: long after its maker ended, a file is a file of its own")
    func lateSibling() {
        let (sed, mv) = (Stage.program(201), Stage.program(202))
        var stage = Stage(with: "report.txt")
        stage.create("next", sed)
        stage.exit(sed)
        stage.wait(.milliseconds(5_001))
        stage.rename("next", to: "report.txt", mv)
        #expect(stage.told == ["replacement report.txt"])
    }

    @Test("`mv other D`: the source was there before, so another file takes the name")
    func moveOver() {
        var stage = Stage(with: "report.txt", "other")
        stage.rename("other", to: "report.txt", vim)
        #expect(stage.told == ["replacement report.txt"])
    }

    @Test("somebody else's new file is a replacement")
    func strangersFile() {
        var stage = Stage(with: "report.txt")
        stage.create("other", stranger)
        stage.rename("other", to: "report.txt", vim)
        #expect(stage.told == ["replacement report.txt"])
    }

    @Test("a temp name of the document says update, also when its making was not seen")
    func byName() {
        var stage = Stage(with: "report.txt", "report.txt.r3Fq0a")
        stage.rename("report.txt.r3Fq0a", to: "report.txt", vim)
        #expect(stage.told == ["update report.txt"])
    }

    @Test("`ln -sf`: a change of type is a replacement always")
    func changeOfType() {
        var recogniser = Recogniser()
        let name = Array("Cuq3Fa91".utf8)
        recogniser.made(name, in: Stage.folder, node: NodeNumber(5), by: vim, at: Instant(nanoseconds: 0))
        let kind = recogniser.kind(
            ofReplacing: Array("report.txt".utf8), by: NodeNumber(5), named: name, areSameType: false,
            by: vim, at: Instant(nanoseconds: 0))
        #expect(kind == .replacement)
    }

    @Test("nobody (pid 0) is not known to be a stranger: update")
    func nobody() {
        var stage = Stage(with: "report.txt", "other")
        stage.rename("other", to: "report.txt", nil)
        #expect(stage.told == ["update report.txt"])
    }
}
