// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

extension MountTests {
    /// A program moves a document away and puts new contents under its name. This is a save, whatever name the old contents
    /// get.
    @Suite struct BackupRenameTests {
        /// How the new file gets the document's name.
        enum Replacement: String, CaseIterable, Sendable { case create, rename, link }

        static let names = [
            "notes.md.old", "Backup of notes.md", "notes.bak", "bk/notes.md", "notes.md.save", "notes.md@",
            ".blend1",
            "Xq7_0", "else/where", "notes.md~",
        ]

        private static func prepare(_ directory: String) throws {
            try PresenterTests.writeNotes(in: directory)
            try Script("mkdir \"$1/bk\" \"$1/else\"").run(directory)
        }

        private static func count(_ message: String, _ presenter: RunningProgram) -> Int {
            presenter.text.components(separatedBy: "presenter/" + message).count - 1
        }

        private static func fill(
            _ document: String, with text: String, _ filling: Replacement, by saver: ScriptedProcess
        )
            throws
        {
            guard filling != .create else {
                try saver.must("put", document, text)
                return
            }
            let made = document + "-made"
            try saver.must("put", made, text)
            try saver.must(filling.rawValue, made, document)
            if filling == .link { try saver.must("unlink", made) }
        }

        /// The longest time in milliseconds for which a name may be missing in a save. A name that is missing for a longer time
        /// can count as deleted. The test then repeats the save.
        private static let longest = 150
        private static let saves = 3

        /// Checks that for each save the presenter relinquishes once and gets one message about a change, and no other message.
        private static func checkSaves(_ told: String) {
            for other in ["didMove", "Deletion", "didAppear"] { #expect(!told.contains(other), "\(told)") }
            for message in ["relinquishToWriter", "didChange"] {
                let count = told.components(separatedBy: "presenter/" + message).count - 1
                #expect(count == saves, "\(message): \(told)")
            }
        }

        private static func save(aside name: String, _ filling: Replacement) throws -> String {
            for _ in 1...10 {
                if let told = try saveInTime(aside: name, filling) { return told }
            }
            throw TestFailure("a program that saves was never run in time")
        }

        /// Saves several times while other programs read the document and list its directory. Returns the presenter's output,
        /// or nil if a save took too long.
        private static func saveInTime(aside name: String, _ filling: Replacement) throws -> String? {
            try MountedDirectory.with(prepare: prepare) { mount in
                let (document, board) = (mount.path + "/notes.md", try CounterTable())
                let (saver, presenter) = (try ScriptedProcess(), try PresenterTests.present(mount))
                let watchers = [
                    try Worker(board, row: 1, "look", document),
                    try Worker(board, row: 2, "list", mount.path, "notes.md"),
                ]
                for watcher in watchers { try watcher.waitUntilReady() }
                let aside = name.isEmpty ? "" : mount.path + "/" + name
                for round in 1...saves {
                    let answer = try saver.ask("save", document, aside, filling.rawValue, "new \(round)")
                    guard let took = Int(answer.dropFirst("ok ".count)) else { throw TestFailure(answer) }
                    guard took < longest else { return nil }
                    try eventually(within: .seconds(10), "change \(round) to be told") {
                        count("didChange", presenter) == round
                    }
                    #expect(try Program("cat").run(document).text == "new \(round)")
                }
                board.stop()
                for watcher in watchers {
                    try watcher.finish()
                    #expect(watcher[.missing] + watcher[.stale] == 0, "\(watcher.numbers)")
                }
                try presenter.end()
                checkForcedSteps(try mount.status())
                return presenter.text
            }
        }

        @Test(
            "A save that renames the document to any backup name is one change, and the document's name is never missing",
            arguments: zip(names, (0..<names.count).map { Replacement.allCases[$0 % 3] }))
        func aSaveThatRenamesTheDocumentIsOneChange(name: String, filling: Replacement) throws {
            let told = try Self.save(aside: name, filling)
            Self.checkSaves(told)
        }

        @Test(
            "While a save removes the document and makes it anew, other programs never find its name missing",
            arguments: Replacement.allCases)
        func lookupsFindTheNameWhileASaveRemovesTheDocument(filling: Replacement) throws {
            Self.checkSaves(try Self.save(aside: "", filling))
        }

        @Test(
            "A rename by a program that goes on running is reported later, together with the program's next writes"
        )
        func aRenameByAProgramIsReportedWithTheProgramsNextWrites() throws {
            try MountedDirectory.with(prepare: Self.prepare) { mount in
                let (document, moved) = (mount.path + "/notes.md", mount.path + "/letter.md")
                let (presenter, mover) = (try PresenterTests.present(mount), try ScriptedProcess())
                try mover.must("rename", document, moved)
                // This write shows that the moved file is no backup.
                try mover.must("put", moved, "rewritten")
                try eventually(within: .seconds(10), "the move and the change to be told") {
                    Self.count("didMove", presenter) == 1 && Self.count("didChange", presenter) == 1
                }
                try mover.must("rename", moved, document)
                try eventually(within: .seconds(10), "the move back to be told") {
                    Self.count("didMove", presenter) == 2
                }
                try presenter.end()
                checkForcedSteps(try mount.status())
            }
        }

        @Test(
            "If a program makes a new file after its rename was reported, the document gets its old name back",
            arguments: Replacement.allCases, [false, true])
        func aLateSaveGivesTheDocumentItsNameBack(filling: Replacement, isWritten: Bool) throws {
            for _ in 1...10 { if try correctInTime(filling, isWritten: isWritten) { return } }
            throw TestFailure("a program that saves was never run in time")
        }

        /// Starts a presenter. If `isWriting` is true, the presenter writes to its file after the file was moved.
        private static func present(_ mount: MountedDirectory, isWriting: Bool) throws -> RunningProgram {
            guard isWriting else { return try PresenterTests.present(mount) }
            let presenter = try TruceCommand.start(
                "present", mount.path + "/notes.md", "--json", "--on-change", "true", "--on-move",
                "case $TRUCE_NEW_PATH in *Backup*) printf 'typed meanwhile' >\"$TRUCE_NEW_PATH\" ;; esac")
            try eventually(within: .seconds(10), "'truce present' to register: \(presenter.errorText)") {
                presenter.errorText.contains("presenting")
            }
            return presenter
        }

        private func correctInTime(_ filling: Replacement, isWritten: Bool) throws -> Bool {
            try MountedDirectory.with(prepare: Self.prepare) { mount in
                let (document, aside) = (mount.path + "/notes.md", mount.path + "/Backup of notes.md")
                let (saver, presenter) = (
                    try ScriptedProcess(), try Self.present(mount, isWriting: isWritten)
                )
                let begun = ContinuousClock.now
                try saver.must("rename", document, aside)
                let typed = mount.below + "/Backup of notes.md"
                try eventually(within: .seconds(10), "the move to be told") {
                    try Self.count("didMove", presenter) == 1
                        && (!isWritten || FileContents.text(of: typed) == "typed meanwhile")
                }
                try Self.fill(document, with: "new", filling, by: saver)
                guard begun.duration(to: .now) < .milliseconds(1_500) else { return false }
                try eventually(within: .seconds(10), "the way back to be told: \(presenter.text)") {
                    Self.count("didMove", presenter) == 2 && Self.count("didChange", presenter) >= 1
                }
                #expect(try Program("cat").run(document).text == "new")
                let kept = try mount.kept("Backup of notes.md").map { try mount.text(ofKept: $0.id) }
                #expect(kept == (isWritten ? ["typed meanwhile"] : []))
                try Script("echo more >>\"$1\"").run(document)
                try eventually(within: .seconds(10), "a change of the document to be told: \(presenter.text)")
                {
                    Self.count("didChange", presenter) == 2
                }
                #expect(Self.count("didMove", presenter) == 2, "\(presenter.text)")
                try presenter.end()
                checkForcedSteps(try mount.status())
                return true
            }
        }

        @Test(
            "Another program's writes to a renamed file are reported when that other program closes the file")
        func writesOfOthersToAMovedFileAreReported() throws {
            try MountedDirectory.with(prepare: Self.prepare) { mount in
                let (document, moved) = (mount.path + "/notes.md", mount.path + "/letter.md")
                let (presenter, mover, writer) = (
                    try PresenterTests.present(mount), try ScriptedProcess(), try ScriptedProcess()
                )
                try writer.must("open", "w", document, "O_WRONLY|O_APPEND")
                try mover.must("rename", document, moved)
                try writer.must("write", "w", "more")
                try writer.must("close", "w")
                try eventually(within: .seconds(10), "the move and the change to be told") {
                    Self.count("didMove", presenter) == 1 && Self.count("didChange", presenter) >= 1
                }
                try presenter.end()
                checkForcedSteps(try mount.status(), except: [.suspended])
            }
        }

        @Test(
            "A program that renames a document and then removes it asks the presenter once about the deletion"
        )
        func removingARenamedDocumentAsksForDeletionOnce() throws {
            try MountedDirectory.with(prepare: Self.prepare) { mount in
                let (document, aside) = (mount.path + "/notes.md", mount.path + "/.trash-1")
                let (presenter, remover) = (try PresenterTests.present(mount), try ScriptedProcess())
                try remover.must("rename", document, aside)
                try remover.must("unlink", aside)
                try eventually(within: .seconds(10), "the deletion to be put to the presenter") {
                    Self.count("accommodateDeletion", presenter) == 1
                }
                try presenter.end()
                checkForcedSteps(try mount.status())
            }
        }

        @Test(
            "A symbolic link or directory under a renamed document's old name is not taken for a save",
            arguments: ["symlink", "mkdir"])
        func aLinkOrDirectoryUnderTheOldNameIsNoSave(maker: String) throws {
            try MountedDirectory.with(prepare: Self.prepare) { mount in
                let (document, moved) = (mount.path + "/notes.md", mount.path + "/letter.md")
                let (presenter, mover) = (try PresenterTests.present(mount), try ScriptedProcess())
                try mover.must("rename", document, moved)
                try mover.must(maker, document)
                try Script("echo more >>\"$1\"").run(moved)
                try eventually(within: .seconds(10), "the move and the change to be told") {
                    Self.count("didMove", presenter) == 1 && Self.count("didChange", presenter) == 1
                }
                try presenter.end()
                checkForcedSteps(try mount.status())
            }
        }

        @Test("A new file that a shell makes after `mv` has ended is not taken for a save")
        func recreatingAMovedFileInAShellIsNotASave() throws {
            try MountedDirectory.with(prepare: Self.prepare) { mount in
                let (presenter, folder) = (
                    try PresenterTests.present(mount), try PresenterTests.present(mount, ".")
                )
                try Script("cd \"$1\"; mv notes.md letter.md; : >notes.md; echo more >>letter.md")
                    .run(mount.path)
                try eventually(within: .seconds(10), "the move and the change to be told") {
                    Self.count("didMove", presenter) == 1 && Self.count("didChange", presenter) == 1
                }
                try eventually(within: .seconds(10), "the new file to be told: \(folder.text)") {
                    Self.count("subitemDidAppear", folder) == 1
                }
                for presenter in [presenter, folder] { try presenter.end() }
                checkForcedSteps(try mount.status())
            }
        }

        @Test(
            "A file that another program makes under the old name is a new file, and the presenter stays with the moved file"
        )
        func aFileThatAnotherProgramMakesUnderTheOldNameIsANewFile() throws {
            try MountedDirectory.with(prepare: Self.prepare) { mount in
                let (document, aside) = (mount.path + "/notes.md", mount.path + "/elsewhere.md")
                let (mover, other) = (try ScriptedProcess(), try ScriptedProcess())
                let presenter = try PresenterTests.present(mount)
                try mover.must("rename", document, aside)
                try eventually(within: .seconds(10), "the move to be told") {
                    Self.count("didMove", presenter) == 1
                }
                try other.must("put", document, "new")
                try Script("echo more >>\"$1\"").run(aside)
                try eventually(within: .seconds(10), "the change of the moved document to be told") {
                    Self.count("didChange", presenter) == 1
                }
                #expect(Self.count("didMove", presenter) == 1)
                try presenter.end()
                checkForcedSteps(try mount.status())
            }
        }

        @Test("`mv` is reported as a move and `rm` as a deletion as soon as they exit")
        func mvAndRmAreReportedWhenTheyExit() throws {
            try MountedDirectory.with(prepare: Self.prepare) { mount in
                let presenter = try PresenterTests.present(mount)
                try Program("mv").run(mount.path + "/notes.md", mount.path + "/letter.md")
                try eventually(within: .seconds(10), "the move to be told") {
                    Self.count("didMove", presenter) == 1
                }
                try Program("rm").run(mount.path + "/letter.md")
                #expect(Self.count("accommodateDeletion", presenter) == 1)
                try Script("! ls \"$1\" | grep -q letter").run(mount.path)
                try presenter.end()
                checkForcedSteps(try mount.status())
            }
        }

        @Test(
            "A log rotation is reported as a move of the old log",
            arguments: [("app.log", "app.log.1"), ("notes", "notes-20260101.gz")])
        func aLogRotationIsReportedAsAMove(name: String, rotated: String) throws {
            let prepare = { (source: String) in try FileContents.write("old\n", to: source + "/" + name) }
            try MountedDirectory.with(prepare: prepare) { mount in
                let (log, former) = (mount.path + "/" + name, mount.path + "/" + rotated)
                let (presenter, rotator) = (try PresenterTests.present(mount, name), try ScriptedProcess())
                try rotator.must("rename", log, former)
                try rotator.must("put", log, "new\n")
                try Script("echo more >>\"$1\"").run(former)
                try eventually(within: .seconds(10), "the change of what was rotated to be told") {
                    Self.count("didChange", presenter) == 1
                }
                #expect(Self.count("didMove", presenter) == 1)
                try presenter.end()
                checkForcedSteps(try mount.status())
            }
        }
    }
}
