// SPDX-License-Identifier: Apache-2.0
import Coordination
import FilesystemServer
import Testing

private let vim = SaveTrace.program(200, parent: 60, session: 60)
private let emacs = SaveTrace.program(210, parent: 61, session: 61)
private let stranger = SaveTrace.program(300, parent: 70, session: 70)

@Suite("System calls that the save detection takes for a save")
struct SavePatternTests {
    @Test("vim's rename, create and unlink of a default save are one save")
    func vimsDefaultSaveIsOneSave() {
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

    @Test("vim's save of a large document that is missing for 1.6 s is one save")
    func vimsSlowSaveIsOneSave() {
        var stage = SaveTrace(with: "report.txt")
        stage.create(".report.txt.swp", vim)
        stage.rename("report.txt", to: "report.txt~", vim)
        stage.wait(.milliseconds(1_600))
        stage.create("report.txt", vim)
        #expect(stage.told == ["vacated report.txt", "save report.txt"])
    }

    @Test("emacs's rename to a backup and create, without a swap file, are one save")
    func emacsSaveWithoutASwapFileIsOneSave() {
        var stage = SaveTrace(with: "report.txt")
        stage.rename("report.txt", to: "report.txt~", emacs)
        stage.create("report.txt", emacs)
        #expect(stage.told == ["vacated report.txt", "save report.txt"])
    }

    @Test("sed -i.bak, which renames its temporary file to the document's name, makes one save")
    func sedInPlaceWithABackupIsOneSave() {
        var stage = SaveTrace(with: "report.txt")
        stage.create("sedq3Fa91", vim)
        stage.rename("report.txt", to: "report.txt.bak", vim)
        stage.rename("sedq3Fa91", to: "report.txt", vim)
        #expect(stage.told == ["vacated report.txt", "save report.txt"])
    }

    @Test("a swap file of any age is evidence of a save while its maker lives")
    func aSwapFileOfAnyAgeIsEvidenceOfASaveWhileItsMakerLives() {
        var stage = SaveTrace(with: "report.txt")
        stage.create(".report.txt.swp", vim)
        stage.wait(.seconds(86_400))
        stage.rename("report.txt", to: "elsewhere", vim)
        #expect(stage.told == ["vacated report.txt"])
    }

    @Test("the swap file of another document is no evidence of a save")
    func anotherDocumentsSwapFileIsNoEvidenceOfASave() {
        var stage = SaveTrace(with: "report.txt", "letter.txt")
        stage.create(".letter.txt.swp", vim)
        stage.rename("report.txt", to: "elsewhere", vim)
        #expect(stage.told == [])
    }

    @Test("the swap file of another program is no evidence of a save")
    func anotherProgramsSwapFileIsNoEvidenceOfASave() {
        var stage = SaveTrace(with: "report.txt")
        stage.create(".report.txt.swp", vim)
        stage.rename("report.txt", to: "elsewhere", stranger)
        #expect(stage.told == [])
    }

    @Test("git's unlink and create are one save, because git is listed among programs that save by unlink")
    func gitCheckoutIsOneSave() {
        var stage = SaveTrace(with: "report.txt")
        stage.unlink("report.txt", vim, program: "git")
        stage.create("report.txt", vim)
        #expect(stage.told == ["vacated report.txt", "save report.txt"])
    }

    @Test("an unlink and the rename of a temporary file are one save, also by an unlisted program")
    func anUnlistedProgramsUnlinkAndRenameAreOneSave() {
        var stage = SaveTrace(with: "a.zip")
        stage.create("ziq3Fa91", vim)
        stage.unlink("a.zip", vim, program: "archiver")
        stage.rename("ziq3Fa91", to: "a.zip", vim)
        #expect(stage.told == ["vacated a.zip", "save a.zip"])
    }

    @Test("rm deletes a document at once, without a pending save")
    func rmBeginsNoPendingSave() {
        var stage = SaveTrace(with: "report.txt")
        stage.unlink("report.txt", vim, program: "rm")
        #expect(stage.told == [])
    }

    @Test("if vim renames its backup back, the document has not changed")
    func vimsRestoredBackupIsNoChange() {
        var stage = SaveTrace(with: "report.txt")
        stage.rename("report.txt", to: "report.txt~", vim)
        stage.rename("report.txt~", to: "report.txt", vim)
        #expect(stage.told == ["vacated report.txt", "nothing report.txt"])
        #expect(stage.pendingSaves.isEmpty)
    }

    @Test("if another program renames the backup back, the document has changed")
    func anotherProgramsRestoreIsAChange() {
        var stage = SaveTrace(with: "report.txt")
        stage.rename("report.txt", to: "report.txt~", vim)
        stage.rename("report.txt~", to: "report.txt", stranger)
        #expect(stage.told == ["vacated report.txt", "change report.txt"])
    }

    @Test("vim's probe file 4913 begins no pending save")
    func vimProbeFileIsIgnored() {
        var stage = SaveTrace()
        stage.create("4913", vim)
        stage.unlink("4913", vim, program: "git")
        #expect(stage.told == [])
    }
}
