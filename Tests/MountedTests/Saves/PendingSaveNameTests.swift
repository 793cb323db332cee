// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// When a document was moved away, all programs may use its name, as in a plain directory (D126). An open of the name waits
    /// only while a living program saves a document that others present or have open.
    @Suite struct PendingSaveNameTests {
        /// Starts a presenter that implements only the question whether the document may be deleted.
        private static func present(_ document: String) throws -> RunningProgram {
            let presenter = try TruceCommand.start("present", document, "--on-delete", "true")
            try eventually(within: .seconds(10), "a presenter: \(presenter.errorText)") {
                presenter.text.contains("presenting")
            }
            return presenter
        }

        private static func end(_ presenter: RunningProgram) throws {
            presenter.send(SIGTERM)
            _ = try presenter.wait(within: .seconds(20))
        }

        @Test(
            "After `mv D D.bak`, another program can make a directory, pipe or link named D without an error",
            arguments: ["mkdir", "mkfifo", "ln -s text", "ln other"])
        func aBackedUpNameCanBeTakenByAnotherProgram(maker: String) throws {
            let prepare = { (source: String) in try FileContents.write("other", to: source + "/other") }
            try MountedDirectory.with(prepare: prepare) { mount in
                try Script("for n in 1 2 3 4 5; do echo text >f$n; mv f$n f$n.bak && $1 f$n; done")
                    .run(maker, at: mount.path)
                checkForcedSteps(try mount.status())
            }
        }

        @Test(
            "While the program that renamed D to D.bak runs, another program can make a directory, pipe or link named D",
            arguments: ["mkdir", "mkfifo", "symlink", "link", "bind"])
        func aBackedUpNameCanBeTakenWhileTheRenamingProgramRuns(maker: String) throws {
            let prepare = { (source: String) in
                try FileContents.write("old", to: source + "/document")
                try FileContents.write("other", to: source + "/other")
            }
            try MountedDirectory.with(prepare: prepare) { mount in
                let (document, one, two) = (
                    mount.path + "/document", try ScriptedProcess(), try ScriptedProcess()
                )
                let presenter = try Self.present(document)
                defer { presenter.send(SIGKILL) }
                try one.must("rename", document, document + ".bak")
                let names = maker == "link" ? [mount.path + "/other", document] : [document]
                let (answer, took) = try timed { try two.ask([maker] + names) }
                #expect(answer == "ok")
                print("\(maker) at a vacated name took \(took)")
                #expect(took < .seconds(10))
                #expect(try one.ask("mkdir", document) == "EEXIST")
                checkForcedSteps(try mount.status())
            }
        }

        @Test(
            "During a pending save a reader waits for the document, and link(2) of the missing name gets ENOENT at once"
        )
        func readersWaitForThePendingSave() throws {
            let prepare = { (source: String) in try FileContents.write("old", to: source + "/document") }
            try MountedDirectory.with(prepare: prepare) { mount in
                let (document, one, two) = (
                    mount.path + "/document", try ScriptedProcess(), try ScriptedProcess()
                )
                let presenter = try Self.present(document)
                defer { presenter.send(SIGKILL) }
                try one.must("rename", document, document + "~")
                let link = try ScriptedProcess().ask("link", document, mount.path + "/link")
                #expect(link == "ENOENT")
                try two.tell(["read", document])
                try eventually(within: .seconds(10), "the reader to wait") {
                    try mount.counters.bounced > 0
                }
                try one.must("put", document, "new")
                #expect(try two.answer() == "ok new")
                checkForcedSteps(try mount.status())
            }
        }

        @Test(
            "A name from which a running program renamed its file is gone at once if no other program uses the file"
        )
        func aRenamedNameWithoutOtherUsersIsGoneAtOnce() throws {
            let prepare = { (source: String) in try FileContents.write("old", to: source + "/document") }
            try MountedDirectory.with(prepare: prepare) { mount in
                let (document, one, two) = (
                    mount.path + "/document", try ScriptedProcess(), try ScriptedProcess()
                )
                try one.must("rename", document, document + "~")
                #expect(try two.ask("read", document) == "ENOENT")
                let names = try Program("ls").run(mount.path).text
                #expect(names == "document~\n")
                #expect(try mount.counters.bounced == 0)
            }
        }

        @Test(
            "The look-up of a presented document that a running program has removed gives ENOENT and not ESTALE",
            arguments: ["cat document", "stat document", "rm document", "ls -d document"])
        func aLookupOfARemovedPresentedDocumentGivesENOENT(command: String) throws {
            let prepare = { (source: String) in try FileContents.write("old", to: source + "/document") }
            try MountedDirectory.with(prepare: prepare) { mount in
                let document = mount.path + "/document"
                let presenter = try Self.present(document)
                // Truce treats `install` as a program that removes files to write them anew.
                let remover = try Script("exec -a install python3 \"$@\"").start(
                    "-c",
                    """
                    import ctypes, os, sys
                    ctypes.CDLL(None).prctl(15, b"install", 0, 0, 0)
                    os.unlink(sys.argv[1])
                    print("removed", flush=True)
                    sys.stdin.read()
                    """, document, input: .keyboard)
                try eventually(within: .seconds(20), "the removal\n\(remover.errorText)") {
                    remover.text == "removed\n"
                }
                let looker = try Script("cd \"$1\"; $2").attempt(mount.path, command)
                #expect(looker.errorText.contains("No such file or directory"), "\(looker.errorText)")
                remover.endInput()
                try remover.wait(within: .seconds(20)).requireSuccess()
                try Self.end(presenter)
            }
        }

        @Test(
            "A program that renames several documents begins no pending save for the last document, and no look-up waits"
        )
        func renamingSeveralDocumentsBeginsNoPendingSave() throws {
            let prepare = { (source: String) in
                for name in ["a", "b", "c", "document"] {
                    try FileContents.write("old", to: source + "/" + name)
                }
            }
            try MountedDirectory.with(prepare: prepare) { mount in
                let (document, one, two) = (
                    mount.path + "/document", try ScriptedProcess(), try ScriptedProcess()
                )
                let presenter = try Self.present(document)
                for name in ["a", "b", "c", "document"] {
                    try one.must("rename", mount.path + "/" + name, mount.path + "/" + name + "~")
                }
                #expect(try two.ask("read", document) == "ENOENT")
                #expect(try mount.counters.bounced == 0)
                try Self.end(presenter)
            }
        }

        @Test(
            "A listing waits once for a document in the middle of a save, for at most 250 ms"
        )
        func aListingWaitsOnceForAPendingSave() throws {
            let prepare = { (source: String) in try FileContents.write("old", to: source + "/document") }
            try MountedDirectory.with(prepare: prepare) { mount in
                let (document, one, two) = (
                    mount.path + "/document", try ScriptedProcess(), try ScriptedProcess()
                )
                let presenter = try Self.present(document)
                try one.must("rename", document, document + "~")
                let (first, took) = try timed { try two.ask("list", mount.path) }
                #expect(first == "ok document~")
                #expect(took < .seconds(10))
                let (again, tookAgain) = try timed { try two.ask("list", mount.path) }
                #expect(again == "ok document~")
                print(
                    "a listing waited \(took.milliseconds) ms for a save, then \(tookAgain.milliseconds) ms"
                )
                #expect(took >= .milliseconds(200))
                let other = try ScriptedProcess()
                try other.tell("list", mount.path)
                try one.must("put", document, "new")
                #expect(try other.answer() == "ok document document~")
                try Self.end(presenter)
                checkForcedSteps(try mount.status())
            }
        }
    }
}
