// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

extension MountTests {
    /// A presenter that saves when it is asked to save, and counts its saves.
    struct SaveCountingPresenter {
        let program: RunningProgram
        private let log: String

        /// Starts the presenter. If `text` is given, the presenter has unsaved text each time it is asked to save.
        init(_ path: String, writing text: String? = nil) throws {
            log = try Lab.freshDirectory("saves") + "/log"
            try FileContents.write("", to: log)
            let save = text.map { "; printf '\($0)' >\"$TRUCE_PATH\"" } ?? ""
            program = try TruceCommand.start("present", path, "--on-save", "echo save >>'\(log)'" + save)
            try eventually(within: .seconds(10), "a presenter: \(program.errorText)") { [program] in
                program.text.contains("presenting")
            }
        }

        var count: Int { get throws { try FileContents.text(of: log).split(separator: "\n").count } }
    }

    @Suite struct PresenterSaveTests {
        enum Method: String, CaseIterable, Sendable { case inPlace, renameOver, unlinkCreate }

        @Test(
            "A program that reads the file twice during its save makes the presenter save once",
            arguments: Method.allCases, [true, false])
        func aProgramThatReadsTwiceDuringItsSaveCausesOneSave(method: Method, hasUnsaved: Bool) throws {
            // 60 s is long enough for any machine. The default of `ask-again` is 2 s.
            try MountedDirectory.with("ask-again=60s", prepare: PresenterTests.writeNotes) { mount in
                let (notes, temporary) = (mount.path + "/notes.md", mount.path + "/notes.md.tmp")
                let saver = try SaveCountingPresenter(notes, writing: hasUnsaved ? "typed" : nil)
                let editor = try ScriptedProcess()
                let expected = hasUnsaved ? "typed" : "saved\n"
                let compared = try editor.must("read", notes)
                #expect(compared == expected.dropLast(hasUnsaved ? 0 : 1) || compared == expected)
                if method == .renameOver { try editor.must("put", temporary, "new") }
                _ = try editor.must("read", notes)
                #expect(try saver.count == 1)
                switch method {
                case .inPlace: try editor.must("put", notes, "new")
                case .renameOver: try editor.must("rename", temporary, notes)
                case .unlinkCreate:
                    try editor.must("unlink", notes)
                    try editor.must("put", notes, "new")
                }
                // Reads the document once more, to check that its contents are complete.
                #expect(try editor.must("read", notes) == "new")
                #expect(try saver.count == 1)
                try saver.program.end()
                try mount.checkDataPath()
            }
        }
    }
}
