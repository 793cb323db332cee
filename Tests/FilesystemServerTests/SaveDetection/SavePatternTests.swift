// SPDX-License-Identifier: Apache-2.0
import Coordination
import FilesystemServer
import Testing

private let vim = SaveTrace.program(200, parent: 60, session: 60)
private let emacs = SaveTrace.program(210, parent: 61, session: 61)
private let stranger = SaveTrace.program(300, parent: 70, session: 70)

@Suite("Saves, by the pattern of their calls")
struct SavePatternTests {
    @Test("C: vim's default save is one write on the document")
    func vimDefault() {
        var stage = SaveTrace(with: "report.txt")
        stage.create(".report.txt.swp", vim)
        stage.create("4913", vim)
        stage.unlink("4913", vim)
        stage.rename("report.txt", to: "report.txt~", vim)
        stage.create("report.txt", vim)
        stage.unlink("report.txt~", vim)
        #expect(stage.told == ["vacated report.txt", "save report.txt"])
        #expect(stage.pendingSaves.isEmpty)
    }

    @Test("C: an 80 MB document is missing for 1.6 s, while its swap file is written")
    func vimLarge() {
        var stage = SaveTrace(with: "report.txt")
        stage.create(".report.txt.swp", vim)
        stage.rename("report.txt", to: "report.txt~", vim)
        stage.wait(.milliseconds(1_600))
        stage.create("report.txt", vim)
        #expect(stage.told == ["vacated report.txt", "save report.txt"])
    }

    @Test("C: emacs' first save of a session, without any swap file")
    func emacsBackup() {
        var stage = SaveTrace(with: "report.txt")
        stage.rename("report.txt", to: "report.txt~", emacs)
        stage.create("report.txt", emacs)
        #expect(stage.told == ["vacated report.txt", "save report.txt"])
    }

    @Test("C, 4r: sed -i.bak renames the document aside and its temp file into place")
    func sedBackup() {
        var stage = SaveTrace(with: "report.txt")
        stage.create("sedq3Fa91", vim)
        stage.rename("report.txt", to: "report.txt.bak", vim)
        stage.rename("sedq3Fa91", to: "report.txt", vim)
        #expect(stage.told == ["vacated report.txt", "save report.txt"])
    }

    @Test("C: a swap file is evidence however old it is, while its creator lives")
    func oldSwap() {
        var stage = SaveTrace(with: "report.txt")
        stage.create(".report.txt.swp", vim)
        stage.wait(.seconds(86_400))
        stage.rename("report.txt", to: "elsewhere", vim)
        #expect(stage.told == ["vacated report.txt"])
    }

    @Test("C: of the temp files of one program only that of the document counts")
    func otherDocumentsSwap() {
        var stage = SaveTrace(with: "report.txt", "letter.txt")
        stage.create(".letter.txt.swp", vim)
        stage.rename("report.txt", to: "elsewhere", vim)
        #expect(stage.told == [])
    }

    @Test("C: another program's swap file proves nothing")
    func strangersSwap() {
        var stage = SaveTrace(with: "report.txt")
        stage.create(".report.txt.swp", vim)
        stage.rename("report.txt", to: "elsewhere", stranger)
        #expect(stage.told == [])
    }

    @Test("D: git checkout unlinks and creates; the program list is the evidence")
    func gitCheckout() {
        var stage = SaveTrace(with: "report.txt")
        stage.unlink("report.txt", vim, program: "git")
        stage.create("report.txt", vim)
        #expect(stage.told == ["vacated report.txt", "save report.txt"])
    }

    @Test("D, 6r: a program outside the list unlinks, then renames its temp file into place")
    func unlinkThenRename() {
        var stage = SaveTrace(with: "a.zip")
        stage.create("ziq3Fa91", vim)
        stage.unlink("a.zip", vim, program: "archiver")
        stage.rename("ziq3Fa91", to: "a.zip", vim)
        #expect(stage.told == ["vacated a.zip", "save a.zip"])
    }

    @Test("D: rm is a deletion, at once")
    func rmIsDeletion() {
        var stage = SaveTrace(with: "report.txt")
        stage.unlink("report.txt", vim, program: "rm")
        #expect(stage.told == [])
    }

    @Test("G: vim restores its backup after a failed CREATE, and nothing is told")
    func rollBack() {
        var stage = SaveTrace(with: "report.txt")
        stage.rename("report.txt", to: "report.txt~", vim)
        stage.rename("report.txt~", to: "report.txt", vim)
        #expect(stage.told == ["vacated report.txt", "nothing report.txt"])
        #expect(stage.pendingSaves.isEmpty)
    }

    @Test("G: another program that gives the old file its name back makes a change")
    func rollBackByStranger() {
        var stage = SaveTrace(with: "report.txt")
        stage.rename("report.txt", to: "report.txt~", vim)
        stage.rename("report.txt~", to: "report.txt", stranger)
        #expect(stage.told == ["vacated report.txt", "change report.txt"])
    }

    @Test("I: vim's 4913 is created and unlinked empty, and vacates nothing")
    func vimProbeFileIsIgnored() {
        var stage = SaveTrace()
        stage.create("4913", vim)
        stage.unlink("4913", vim, program: "git")
        #expect(stage.told == [])
    }
}
