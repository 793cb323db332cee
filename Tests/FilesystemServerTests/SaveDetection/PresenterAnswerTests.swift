// SPDX-License-Identifier: Apache-2.0
import Coordination
import FilesystemServer
import Testing

private let editor = SaveTrace.program(200, parent: 60, session: 60)

@Suite("Saves by presenters that were asked")
struct PresenterAnswerTests {
    @Test("A presenter that was asked and renames the document aside is expected to fill its name again")
    func askedPresenterRenamesAside() {
        var stage = SaveTrace(with: "report.txt")
        stage.rename("report.txt", to: "elsewhere", editor, isAnswering: true)
        stage.create("report.txt", editor)
        #expect(stage.told == ["vacated report.txt", "save report.txt"])
    }

    @Test("A presenter that was asked and unlinks the document is expected to fill its name again")
    func askedPresenterUnlinks() {
        var stage = SaveTrace(with: "report.txt")
        stage.unlink("report.txt", editor, isAnswering: true)
        stage.create("report.txt", editor)
        #expect(stage.told == ["vacated report.txt", "save report.txt"])
    }

    @Test("A program that saves for an asked presenter may end before the next one fills the name")
    func saveByTwoHelperProcesses() {
        let (mover, maker) = (SaveTrace.program(210, parent: 200), SaveTrace.program(211, parent: 200))
        var stage = SaveTrace(with: "report.txt", "letter.txt")
        stage.rename("report.txt", to: "elsewhere", mover, isAnswering: true)
        stage.rename("letter.txt", to: "letter.txt~", mover)
        stage.exit(mover)
        #expect(stage.told == ["vacated report.txt", "vacated letter.txt", "gone letter.txt"])
        stage.create("report.txt", maker)
        #expect(stage.told.last == "save report.txt")
    }

    @Test("A name that an asked presenter does not fill is empty after a while")
    func unfilledNameExpires() {
        var stage = SaveTrace(with: "report.txt")
        stage.unlink("report.txt", editor, isAnswering: true)
        stage.exit(editor)
        stage.wait(SaveLimits.pendingIdle)
        #expect(stage.told == ["vacated report.txt", "gone report.txt"])
    }

    @Test("The same steps by a program that was not asked are a move and a deletion")
    func unaskedProgramMovesAndDeletes() {
        var stage = SaveTrace(with: "report.txt", "letter.txt")
        stage.rename("report.txt", to: "elsewhere", editor)
        stage.unlink("letter.txt", editor)
        #expect(stage.told.isEmpty)
    }

    @Test("Evidence of names and helper files comes first")
    func evidencePrecedence() {
        var saveDetector = SaveDetector(knowing: .shipped)
        let document = NodeNumber(7)
        let evidence = { (saveDetector: SaveDetector, name: String) in
            saveDetector.evidence(
                whenRenaming: Array("report.txt".utf8), document, in: SaveTrace.folder, to: Array(name.utf8),
                isRegularFile: true, isAnswering: true, by: editor, at: Instant(nanoseconds: 0))
        }
        #expect(evidence(saveDetector, "report.txt~") == .backupName)
        #expect(evidence(saveDetector, "elsewhere") == .presenter)
        saveDetector.noteCreated(
            Array(".report.txt.swp".utf8), in: SaveTrace.folder, node: NodeNumber(8), by: editor,
            at: Instant(nanoseconds: 0))
        #expect(evidence(saveDetector, "elsewhere") == .helperFile)
    }

    @Test("Removals of helper files or directories, or by an unknown process, are no saves")
    func helperFilesAreNoDocuments() {
        var stage = SaveTrace(with: ".report.txt.swp", "folder", "report.txt")
        stage.unlink(".report.txt.swp", editor, isAnswering: true)
        stage.rename("folder", to: "elsewhere", editor, isRegularFile: false, isAnswering: true)
        stage.unlink("report.txt", nil, isAnswering: true)
        #expect(stage.told.isEmpty)
    }
}
