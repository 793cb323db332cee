// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// Tests of presenters, with programs that use the protocol and programs that do not.
    @Suite struct PresenterTests {
        static let rounds = 100

        enum Method: String, CaseIterable, Sendable {
            case inPlace = "in-place"
            case renameOver = "rename-over"
            case renameAside = "rename-aside"
            case unlinkCreate = "unlink-create"
            case child
        }

        enum Operation: String, CaseIterable, Sendable { case open, unlink, rename, truncate }

        /// The output of the program `presented-saves`.
        struct Figures: Decodable {
            var rounds: Int
            var failures: Int
            /// The longest time of a save, in milliseconds.
            var longest: Int
            var seen: [String: Int]
        }

        @Test(
            "A presenter that is asked saves 100 times while other programs wait, without a deadlock or a forfeit",
            arguments: Method.allCases, Operation.allCases)
        func presentersSaveWhileOthersWaitWithoutDeadlock(method: Method, operation: Operation) throws {
            try MountedDirectory.with("ask-again=0ms") { mount in
                let outcome = try Program("python3").run(
                    Checkout.path("Tests/Workers/presented-saves"), try mount.socket(), mount.path,
                    method.rawValue, operation.rawValue, String(Self.rounds), within: .seconds(120))
                let figures = try JSONDecoder().decode(Figures.self, from: Data(outcome.output))
                let status = try mount.status()
                print(
                    "\(method.rawValue), \(operation.rawValue): longest \(figures.longest) ms; \(figures.seen)"
                )
                #expect(figures.rounds == Self.rounds)
                #expect(figures.failures == 0)
                // Each save took less than the shortest deadline of a presenter, which is 5 s.
                #expect(figures.longest < 5_000)
                #expect(figures.seen[operation == .open ? "save" : "relinquishToWriter"] ?? 0 >= Self.rounds)
                try mount.checkDataPath()
                checkForcedSteps(status)
            }
        }

        @Test(
            "A stopped presenter delays a reader until the presenter's deadline, and `truce why` names the presenter"
        )
        func aStoppedPresenterDelaysAReaderUntilItsDeadline() throws {
            try MountedDirectory.with("relinquish=1s", prepare: Self.writeNotes) { mount in
                let presenter = try Self.present(mount)
                presenter.send(SIGSTOP)
                let (reader, took) = try timed { () throws -> ProgramResult in
                    let reader = try Program("cat").start(mount.path + "/notes.md")
                    try eventually(within: .seconds(10), "'truce why' to name the presenter") {
                        let text = try TruceCommand.run("why", mount.path + "/notes.md").text
                        return text.contains("cat (\(reader.pid)) waits for truce (\(presenter.pid))")
                    }
                    return try reader.wait(within: .seconds(11), for: "the forfeit of a stopped presenter")
                }
                print("a stopped presenter delayed a reader by \(took.milliseconds) ms (bound 1000 ms)")
                #expect(reader.text == "saved\n")
                #expect(took < .seconds(11))
                #expect(took >= .seconds(1))
                let counters = try mount.counters
                // The presenter forfeits once. This forfeit is valid for all further questions of the access, to relinquish and
                // to save.
                #expect(counters.forfeited == 1)
                presenter.send(SIGCONT)
                try presenter.end()
                checkForcedSteps(try mount.status(), except: [.forfeited])
            }
        }

        @Test("A presenter that is killed while a reader waits for it delays the reader no further")
        func aPresenterThatIsKilledStopsDelayingAReader() throws {
            try MountedDirectory.with(prepare: Self.writeNotes) { mount in
                let presenter = try Self.present(mount)
                presenter.send(SIGSTOP)
                let reader = try Program("cat").start(mount.path + "/notes.md")
                try eventually(within: .seconds(10), "the presenter to be asked") {
                    try mount.counters.asked == 1
                }
                #expect(!reader.hasEnded)
                let (outcome, took) = try timed { () throws -> ProgramResult in
                    presenter.send(SIGKILL)
                    return try reader.wait(within: .seconds(10), for: "a presenter that is dead")
                }
                print("the reader went on \(took.milliseconds) ms after SIGKILL of the presenter")
                #expect(outcome.text == "saved\n")
                // If the presenter had not been killed, the reader would have waited up to 5 s.
                #expect(took < .seconds(4))
                checkForcedSteps(try mount.status())
            }
        }

        /// Runs `body` while a presenter saves and a reader waits for this save. The save continues when a program writes to
        /// the pipe `go`.
        private func whileSaving(
            _ body: (MountedDirectory, RunningProgram, RunningProgram, String) throws -> Void
        ) throws {
            let stage = try Lab.freshDirectory("stage")
            try Script("mkfifo \"$1/between\" \"$1/go\"").run(stage)
            try MountedDirectory.with(prepare: Self.writeNotes) { mount in
                let presenter = try TruceCommand.start(
                    "present", mount.path + "/notes.md", "--on-save",
                    """
                    cd '\(stage)'; printf 'first ' >"$TRUCE_PATH"; echo >between; read -r _ <go
                    echo second >>"$TRUCE_PATH"
                    """)
                try eventually(within: .seconds(10), "a presenter: \(presenter.errorText)") {
                    presenter.text.contains("presenting")
                }
                let reader = try Program("cat").start(mount.path + "/notes.md")
                try Program("cat").run(stage + "/between")
                try body(mount, presenter, reader, stage)
            }
        }

        @Test("`truce present` finishes its save after SIGTERM, and a second SIGTERM cuts the save off")
        func trucePresentFinishesItsSaveBeforeItEnds() throws {
            try whileSaving { mount, presenter, reader, stage in
                presenter.send(SIGTERM)
                try Script("echo >\"$1/go\"").run(stage)
                try presenter.wait(within: .seconds(20)).requireSuccess()
                try reader.wait(within: .seconds(20)).requireSuccess()
                #expect(reader.text == "first second\n")
                checkForcedSteps(try mount.status())
            }
            try whileSaving { mount, presenter, reader, _ in
                presenter.send(SIGTERM)
                try eventually(within: .seconds(10), "the signal to be taken") {
                    ProcessStatus(of: presenter.pid)?["ShdPnd"]?.allSatisfy { $0 == "0" } ?? false
                }
                presenter.send(SIGTERM)
                let took = try timed { try presenter.wait(within: .seconds(12)) }.1
                print("ended \(took.milliseconds) ms after the second signal (bound 1000 ms)")
                try reader.wait(within: .seconds(20)).requireSuccess()
            }
        }

        @Test("A presenter keeps its file when another hard link to the file is replaced")
        func aPresenterKeepsItsFileWhenAnotherLinkIsReplaced() throws {
            try MountedDirectory.with("ask-again=0ms", prepare: Self.writeNotes) { mount in
                try Program("ln").run(mount.path + "/notes.md", mount.path + "/copy.md")
                try FileContents.write("other\n", to: mount.path + "/next.md")
                let presenter = try Self.present(mount)
                try Program("mv").run(mount.path + "/next.md", mount.path + "/copy.md")
                // The replacement did not touch the presented file, so no question was asked.
                #expect(try mount.counters.asked == 0)
                #expect(try Program("cat").run(mount.path + "/notes.md").text == "saved\n")
                #expect(try mount.counters.asked > 0)
                try presenter.end()
                checkForcedSteps(try mount.status())
            }
        }

        @Test(
            "The removal of another hard link is reported to the folder's presenter, and not to the file's"
        )
        func removingAnotherLinkIsReportedToTheFolderOnly() throws {
            try MountedDirectory.with(prepare: Self.writeNotes) { mount in
                try Program("ln").run("notes.md", "other", at: mount.path)
                let (presenter, folder) = (try Self.present(mount), try Self.present(mount, "."))
                try Script("cd \"$1\"; rm other; echo more >>notes.md").run(mount.path)
                try eventually(within: .seconds(10), "the change to be told") {
                    presenter.text.contains("presenter/didChange") && folder.text.contains("\"notes.md\"")
                }
                #expect(
                    presenter.text.components(separatedBy: "presenter/did").count == 2, "\(presenter.text)")
                #expect(!presenter.text.contains("Deletion"), "\(presenter.text)")
                #expect(folder.text.contains("other"), "\(folder.text)")
                for presenter in [presenter, folder] { try presenter.end() }
                checkForcedSteps(try mount.status())
            }
        }

        @Test("A presenter keeps its file when another hard link to the file replaces a different file")
        func aPresenterKeepsItsFileWhenAnotherLinkReplacesADifferentFile() throws {
            try MountedDirectory.with("ask-again=0ms", prepare: Self.writeNotes) { mount in
                try FileContents.write("other\n", to: mount.path + "/latest.md")
                let presenter = try Self.present(mount)
                try Program("ln").run("--force", mount.path + "/notes.md", mount.path + "/latest.md")
                #expect(try mount.counters.asked == 0)
                let next = mount.path + "/next.md"
                try FileContents.write("next\n", to: next)
                try Program("mv").run(next, mount.path + "/notes.md")
                #expect(try mount.counters.asked > 0, "its file is replaced")
                #expect(!presenter.text.contains("didMove"), "\(presenter.text)")
                let asked = try mount.counters.asked
                try Program("rm").run(mount.path + "/latest.md")
                #expect(try mount.counters.asked == asked, "what is deleted is not its file")
                #expect(!presenter.text.contains("accommodateDeletion"), "\(presenter.text)")
                #expect(try Program("cat").run(mount.path + "/notes.md").text == "next\n")
                #expect(try mount.counters.asked > asked)
                try presenter.end()
                checkForcedSteps(try mount.status())
            }
        }

        @Test("A rename over a directory that is not empty fails, and asks no presenter")
        func aRenameOverANonEmptyDirectoryAsksNoPresenter() throws {
            let prepare = { (source: String) in
                try Script("mkdir -p \"$1/photos\" \"$1/archive/photos\"").run(source)
                try Self.writeNotes(in: source + "/archive/photos")
            }
            try MountedDirectory.with("ask-again=0ms", prepare: prepare) { mount in
                let presenter = try Self.present(mount, "archive/photos/notes.md")
                let mover = try ScriptedProcess()
                let answer = try mover.ask("rename", mount.path + "/photos", mount.path + "/archive/photos")
                #expect(answer == "ENOTEMPTY")
                #expect(try mount.counters.asked == 0)
                #expect(presenter.text == "")
                try presenter.end()
                checkForcedSteps(try mount.status())
            }
        }

        @Test(
            "A document that git removes counts as deleted, and not as moved to another hard link of its file"
        )
        func aDocumentThatGitRemovesIsDeletedNotMoved() throws {
            let place = try Lab.freshDirectory("programs")
            try Script("ln -s \"$(python3 -c 'import sys; print(sys.executable)')\" \"$1/git\"").run(place)
            let prepare = { (source: String) in
                try Self.writeNotes(in: source)
                try Program("ln").run(source + "/notes.md", source + "/copy.md")
            }
            try MountedDirectory.with(prepare: prepare) { mount in
                let presenter = try Self.present(mount)
                let git = try Script(
                    """
                    exec "$1" -c 'import os, sys
                    os.unlink(sys.argv[1]); print("gone", flush=True); sys.stdin.readline()' "$2"
                    """
                ).start(place + "/git", mount.path + "/notes.md", at: place, input: .keyboard)
                try eventually(within: .seconds(10), "the link to go: \(git.errorText)") {
                    git.text == "gone\n"
                }
                try Program("stat").run(mount.path + "/copy.md")
                try git.type("\n")
                try git.wait(within: .seconds(10)).requireSuccess()
                try eventually(within: .seconds(10), "the deletion to be put") {
                    presenter.text.contains("presenter/accommodateDeletion")
                }
                #expect(!presenter.text.contains("presenter/didMove"), "\(presenter.text)")
                try presenter.end()
                checkForcedSteps(try mount.status())
            }
        }

        @Test("A save by exchanging two files is a change of the document, neither a move nor a deletion")
        func aSaveByExchangingTwoFilesIsAChangeOfTheDocument() throws {
            try MountedDirectory.with(prepare: Self.writeNotes) { mount in
                let (document, made, saver) = (
                    mount.path + "/notes.md", mount.path + "/.made", try ScriptedProcess()
                )
                let presenter = try Self.present(mount)
                let changes = { presenter.text.components(separatedBy: "presenter/didChange").count - 1 }
                try saver.must("put", made, "new")
                try saver.must("exchange", made, document)
                try saver.must("unlink", made)
                try eventually(within: .seconds(10), "the change to be told") { changes() == 1 }
                #expect(try Program("cat").run(document).text == "new")
                // The exchanged file is still the presenter's document.
                try Script("echo more >>\"$1\"").run(document)
                try eventually(within: .seconds(10), "the next change to be told") { changes() == 2 }
                for other in ["didMove", "Deletion"] {
                    #expect(!presenter.text.contains(other), "\(presenter.text)")
                }
                try presenter.end()
                checkForcedSteps(try mount.status())
            }
        }

        @Test("`mv` from another file system over a document is a change of the document, not a deletion")
        func aCrossDeviceMoveOverADocumentIsAChange() throws {
            let place = try Lab.freshDirectory("elsewhere")
            try MountedDirectory.with(prepare: Self.writeNotes) { mount in
                let presenter = try Self.present(mount)
                try FileContents.write("new\n", to: place + "/made.md")
                // The mount is a separate file system, so mv copies the new file over the document's removed name.
                try Program("mv").run(place + "/made.md", mount.path + "/notes.md")
                try eventually(within: .seconds(10), "the change to be told") {
                    presenter.text.contains("presenter/didChange")
                }
                #expect(!presenter.text.contains("Deletion"), "\(presenter.text)")
                // mv to another file system deletes the document, so its presenter is asked about the deletion.
                try Program("mv").run(mount.path + "/notes.md", place + "/kept.md")
                try eventually(within: .seconds(10), "the deletion to be put") {
                    presenter.text.contains("presenter/accommodateDeletion")
                }
                try presenter.end()
                checkForcedSteps(try mount.status())
            }
        }

        static func writeNotes(in directory: String) throws {
            try FileContents.write("saved\n", to: directory + "/notes.md")
        }

        /// Starts `truce present` as a presenter that consents to everything.
        static func present(
            _ mount: MountedDirectory, _ name: String = "notes.md"
        ) throws -> RunningProgram {
            let presenter = try TruceCommand.start("present", mount.path + "/" + name, "--json")
            try eventually(within: .seconds(10), "'truce present' to register: \(presenter.errorText)") {
                presenter.errorText.contains("presenting")
            }
            return presenter
        }
    }
}

extension MountedDirectory {
    func socket() throws -> String {
        try TruceCommand.run("socket", path).text.trimmingCharacters(in: .newlines)
    }
}
