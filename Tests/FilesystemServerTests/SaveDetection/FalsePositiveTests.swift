// SPDX-License-Identifier: Apache-2.0
import Coordination
import FilesystemServer
import Testing

private let vim = SaveTrace.program(200, parent: 60, session: 60)
private let stranger = SaveTrace.program(300, parent: 70, session: 70)

@Suite("Steps that resemble a save but are none")
struct FalsePositiveTests {
    @Test("after `mv D D.bak`, the pending save ends when mv exits, and a later new D is a new file")
    func aBackupByMvIsAMove() {
        let (mv, editor) = (SaveTrace.program(201), SaveTrace.program(202))
        var stage = SaveTrace(with: "report.txt")
        stage.rename("report.txt", to: "report.txt.bak", mv)
        stage.exit(mv)
        stage.create("report.txt", editor)
        #expect(stage.told == ["vacated report.txt", "gone report.txt"])
    }

    @Test(
        "if another program creates a file under the name of a pending save, the file counts as a change and not as the save"
    )
    func anotherProgramsNewFileIsNoSave() {
        var stage = SaveTrace(with: "report.txt")
        stage.rename("report.txt", to: "report.txt~", vim)
        stage.create("report.txt", stranger)
        #expect(stage.told == ["vacated report.txt", "change report.txt"])
        #expect(stage.pendingSaves.isEmpty)
    }

    @Test("a log rotation begins no pending save", arguments: ["app.log.1", "app.log-20260101"])
    func logRotationIsNoSave(rotated: String) {
        var stage = SaveTrace(with: "app.log")
        stage.rename("app.log", to: rotated, vim)
        stage.create("app.log", vim)
        #expect(stage.told == [])
    }

    @Test("`git rm` counts as a deletion when git exits")
    func gitRmIsADeletionWhenGitExits() {
        var stage = SaveTrace(with: "report.txt")
        stage.unlink("report.txt", vim, program: "git")
        stage.exit(vim)
        #expect(stage.told == ["vacated report.txt", "gone report.txt"])
    }

    @Test("a process with a reused number does not complete the pending save of the former process")
    func aProcessWithAReusedNumberDoesNotCompleteThePendingSave() {
        let former = SaveTrace.program(200, started: 1, parent: 60, session: 60)
        let latter = SaveTrace.program(200, started: 2, parent: 61, session: 61)
        #expect(!former.isSameSave(as: latter))
        var stage = SaveTrace(with: "report.txt")
        stage.rename("report.txt", to: "report.txt~", former)
        stage.create("report.txt", latter)
        #expect(stage.told == ["vacated report.txt", "change report.txt"])
    }

    @Test(
        "two processes belong to one save only if session and parent are equal, or one is the other's parent")
    func aSaveNeedsTheSameSessionAndParent() {
        let one = SaveTrace.program(1, parent: 60, session: 60)
        #expect(one.isSameSave(as: SaveTrace.program(2, parent: 60, session: 60)))
        #expect(!one.isSameSave(as: SaveTrace.program(2, parent: 61, session: 60)))
        #expect(!one.isSameSave(as: SaveTrace.program(2, parent: 60, session: 61)))
        #expect(one.isSameSave(as: SaveTrace.program(60, parent: 9, session: 9)))
        #expect(SaveTrace.program(60, parent: 9, session: 9).isSameSave(as: one))
        let orphan = SavingProcess(process: ProcessID(number: 3, started: 1), parent: nil, session: 60)
        let other = SavingProcess(process: ProcessID(number: 4, started: 1), parent: nil, session: 60)
        #expect(!orphan.isSameSave(as: other))
    }

    @Test("no pending save begins for a directory, a helper file, a lock file or an unknown process")
    func specialFilesBeginNoPendingSave() {
        var stage = SaveTrace(with: "folder", "a.lock.txt.lock", ".report.txt.swp", "report.txt")
        stage.rename("folder", to: "folder~", vim, isRegularFile: false)
        stage.unlink("a.lock.txt.lock", vim, program: "git")
        stage.rename(".report.txt.swp", to: ".report.txt.swp~", vim)
        stage.rename("report.txt", to: "report.txt~", nil)
        stage.unlink("report.txt~", nil, program: "git")
        #expect(stage.told == [])
    }

    @Test(
        "no pending save begins if a saver removes its own temporary file, but one begins for another program's file"
    )
    func aSaversOwnTemporaryFileIsNoDocument() {
        var stage = SaveTrace(with: "notes.bak")
        stage.create("report.txt.tmp", vim)
        stage.unlink("report.txt.tmp", vim, program: "git")
        stage.rename("notes.bak", to: "notes.bak~", vim)
        #expect(stage.told == ["vacated notes.bak"])
    }
}

@Suite("Helper files as evidence of a save")
struct HelperFileTests {
    @Test("a helper file of a program that has exited does not make a later deletion a save")
    func anExitedProgramsHelperFileIsNoEvidenceOfASave() {
        let (touch, rm) = (SaveTrace.program(201), SaveTrace.program(202))
        var stage = SaveTrace(with: "report.txt")
        stage.create("report.txt.tmp", touch)
        #expect(stage.makers("report.txt", rm) == [touch.process])
        stage.exit(touch)
        #expect(stage.makers("report.txt", rm).isEmpty)
        stage.wait(.milliseconds(5_001))
        stage.unlink("report.txt", rm, program: "rm")
        #expect(stage.told == [])
    }

    @Test("a temporary file without its document's name is evidence of a save only while it is new")
    func aNewTemporaryFileWithoutItsDocumentsNameIsEvidenceOfASave() {
        var stage = SaveTrace(with: "report.txt", "letter.txt")
        stage.create("tmpab12", vim)
        stage.wait(.milliseconds(5_001))
        stage.unlink("report.txt", vim, program: "node")
        #expect(stage.told == [])
        stage.close("tmpab12")
        stage.unlink("letter.txt", vim, program: "node")
        #expect(stage.told == ["vacated letter.txt"])
    }

    @Test("at most 4,096 helper files are remembered; the oldest are forgotten first")
    func atMost4096HelperFilesAreRemembered() {
        var saveDetector = SaveDetector(knowing: .shipped)
        for number in 0..<UInt64(SaveLimits.rememberedFiles) + 1 {
            saveDetector.noteCreated(
                Array("tmp\(number)".utf8), in: SaveTrace.folder, node: NodeNumber(number), by: vim,
                at: Instant(nanoseconds: 0))
        }
        #expect(saveDetector.count == SaveLimits.rememberedFiles)
    }

    @Test("many short-lived helper files do not make the detector forget a swap file that stays")
    func manyShortLivedFilesDoNotForgetASwapFile() {
        var stage = SaveTrace(with: "report.txt")
        stage.create(".report.txt.swp", vim)
        for _ in 0..<3 * SaveLimits.rememberedFiles {
            stage.create("tmpa", stranger)
            stage.unlink("tmpa", stranger)
        }
        #expect(stage.saveDetector.count == 1)
        stage.rename("report.txt", to: "elsewhere", vim)
        #expect(stage.told == ["vacated report.txt"])
    }
}
