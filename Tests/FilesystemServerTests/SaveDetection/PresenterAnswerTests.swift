// SPDX-License-Identifier: Apache-2.0
import Coordination
import FilesystemServer
import Testing

private let editor = SaveTrace.program(200, parent: 60, session: 60)

@Suite("Saves by presenters that answer a question")
struct PresenterAnswerTests {
    @Test("If a presenter renames the document as its answer to a question, a pending save begins")
    func anAskedPresentersRenameBeginsASave() {
        var stage = SaveTrace(with: "report.txt")
        stage.rename("report.txt", to: "elsewhere", editor, isAnswering: true)
        stage.create("report.txt", editor)
        #expect(stage.told == ["vacated report.txt", "save report.txt"])
    }

    @Test("If a presenter unlinks the document as its answer to a question, a pending save begins")
    func anAskedPresentersUnlinkBeginsASave() {
        var stage = SaveTrace(with: "report.txt")
        stage.unlink("report.txt", editor, isAnswering: true)
        stage.create("report.txt", editor)
        #expect(stage.told == ["vacated report.txt", "save report.txt"])
    }

    @Test("An asked presenter's pending save goes on when the helper process that began it exits")
    func anAskedPresentersSaveOutlastsItsHelperProcess() {
        let (mover, maker) = (SaveTrace.program(210, parent: 200), SaveTrace.program(211, parent: 200))
        var stage = SaveTrace(with: "report.txt", "letter.txt")
        stage.rename("report.txt", to: "elsewhere", mover, isAnswering: true)
        stage.rename("letter.txt", to: "letter.txt~", mover)
        stage.exit(mover)
        #expect(stage.told == ["vacated report.txt", "vacated letter.txt", "gone letter.txt"])
        stage.create("report.txt", maker)
        #expect(stage.told.last == "save report.txt")
    }

    @Test("A pending save that an asked presenter does not complete expires, and the document is gone")
    func anAskedPresentersUnfinishedSaveExpires() {
        var stage = SaveTrace(with: "report.txt")
        stage.unlink("report.txt", editor, isAnswering: true)
        stage.exit(editor)
        stage.wait(SaveLimits.pendingIdle)
        #expect(stage.told == ["vacated report.txt", "gone report.txt"])
    }

    @Test("A rename and an unlink by a program that was not asked begin no pending save")
    func aProgramThatWasNotAskedBeginsNoPendingSave() {
        var stage = SaveTrace(with: "report.txt", "letter.txt")
        stage.rename("report.txt", to: "elsewhere", editor)
        stage.unlink("letter.txt", editor)
        #expect(stage.told.isEmpty)
    }

    @Test("A backup name or a helper file is used as evidence before the question to a presenter")
    func aBackupNameOrHelperFileIsStrongerEvidenceThanAQuestion() {
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

    @Test(
        "No pending save begins if a presenter removes a helper file or moves a directory, or if the process is unknown"
    )
    func aRemovalBeginsASaveOnlyIfItsProcessIsKnownAndItsFileIsADocument() {
        var stage = SaveTrace(with: ".report.txt.swp", "folder", "report.txt")
        stage.unlink(".report.txt.swp", editor, isAnswering: true)
        stage.rename("folder", to: "elsewhere", editor, isRegularFile: false, isAnswering: true)
        stage.unlink("report.txt", nil, isAnswering: true)
        #expect(stage.told.isEmpty)
    }
}
