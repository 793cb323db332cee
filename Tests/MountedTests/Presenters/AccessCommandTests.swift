// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

/// Runs `truce read`, `write`, `present`, `why` and `ps` as commands on real mounts.
extension MountTests {
    @Suite struct AccessCommandTests {
        @Test(
            "Other programs wait until `truce write` ends; meanwhile `why` and `ps` name the command that it runs"
        )
        func otherProgramsWaitWhileTruceWriteRuns() throws {
            try MountedDirectory.with("wait=60s", "hold-aware=60s") { mount in
                let document = mount.path + "/document"
                try Script("echo old >\"$1\"").run(document)
                let writer = try Self.write(
                    document, "echo held; read line; echo new >\"$TRUCE_PATH\"; exit 7")
                try eventually(within: .seconds(10), "the command to run") { writer.text == "held\n" }
                let other = try ScriptedProcess()
                try other.tell("open", "r", document, "O_RDONLY")
                try mount.waitUntilParked(other.pid)

                let why = try TruceCommand.run("why", document).text.split(separator: "\n")
                try #require(why.count == 3, "\(why)")
                #expect(why[0].hasPrefix("python3 (pid \(other.pid)) has waited for "))
                #expect(why[1].hasPrefix("  python3 (\(other.pid)) waits for truce (\(writer.pid))"))
                #expect(why[2].hasPrefix("truce (pid \(writer.pid)) has had 'document' for "))
                let table = try TruceCommand.run("ps", mount.path).text.split(separator: "\n")
                try #require(table.count == 3, "\(table)")
                let rows = table.map { $0.split(separator: " ").map(String.init) }
                let user = try Program("id").run("--user", "--name").text
                #expect(rows.dropFirst().allSatisfy { $0[1] + "\n" == user })
                #expect(rows[0] == ["PID", "USER", "PROGRAM", "STATE", "ACCESS", "PATH"])
                #expect(
                    rows[1].first == "\(writer.pid)" && rows[1].suffix(3) == ["held", "forMerging", document])
                #expect(
                    rows[2].first == "\(other.pid)" && rows[2].suffix(3) == ["waiting", "read", document])

                try writer.type("\n")
                #expect(try writer.wait(within: .seconds(10)).ending == .exited(7))
                _ = try other.answer()
                try other.must("close", "r")
                #expect(try Program("cat").run(document).text == "new\n")
                #expect(
                    try TruceCommand.run("why", document).text
                        == "No program uses 'document' or waits for it.\n")
                checkForcedSteps(try mount.status())
            }
        }

        @Test(
            "`truce read` ends with the exit code of its command, or with a code that says why the command did not run",
            arguments: [
                ("exit 3", 3, ""), ("kill -KILL $$", 128 + SIGKILL, ""),
                ("exec /none/such", 127, "/none/such"),
            ])
        func truceReadEndsWithTheExitCodeOfItsCommand(command: String, code: Int32, said: String) throws {
            try MountedDirectory.with { mount in
                let ended = try TruceCommand.attempt("read", mount.path + "/new", "--", "bash", "-c", command)
                #expect(ended.ending == .exited(code), "\(ended.errorText)")
                #expect(ended.errorText.contains(said))
                for (program, code) in [("no-such-program", 127), (mount.path, 126)] {
                    let refused = try TruceCommand.attempt("write", mount.path + "/new", "--", program)
                    #expect(refused.ending == .exited(Int32(code)))
                    #expect(refused.errorText.split(separator: "\n").count == 1, "\(refused.errorText)")
                }
                #expect(try TruceCommand.run("ps", "--json", mount.path).text.contains("\"claims\":[]"))
            }
        }

        @Test(
            "`truce write` ends with 124 if its wait times out, and leaves no waiting claim if it is interrupted"
        )
        func truceWriteLeavesNoClaimIfItsWaitTimesOutOrIsInterrupted() throws {
            try MountedDirectory.with("wait=1s", "policy=fail") { mount in
                let document = mount.path + "/document"
                let writer = try Self.write(document, "echo held; read line")
                try eventually(within: .seconds(10), "the command to run") { writer.text == "held\n" }
                let late = try TruceCommand.attempt("write", document, "--", "true")
                #expect(late.ending == .exited(124))
                #expect(
                    late.errorText.contains("waits for truce (\(writer.pid)), which is writing document"),
                    "\(late.errorText)")

                let interrupted = try TruceCommand.start("write", document, "--", "true")
                try mount.waitUntilParked(interrupted.pid)
                interrupted.send(SIGINT)
                #expect(try interrupted.wait(within: .seconds(5)).ending == .signalled(SIGINT))
                try eventually(within: .seconds(5), "the end of the wait") {
                    try mount.status().waiting.isEmpty
                }
                let kin = try TruceCommand.attempt("write", document, "--purpose", "test", "--", "true")
                #expect(kin.ending == .exited(124))
                try writer.type("\n")
                try writer.wait(within: .seconds(10)).requireSuccess()
            }
        }

        @Test("Two `truce write` commands with one purpose do not wait for each other")
        func truceWriteCommandsOfOnePurposeDoNotWaitForEachOther() throws {
            try MountedDirectory.with("wait=60s") { mount in
                let document = mount.path + "/document"
                let outer = try TruceCommand.attempt(
                    "write", document, "--purpose", "a test", "--", try Lab.variable("TRUCE_BINARY"), "write",
                    document, "--purpose", "a test", "--", "bash", "-c", "echo inside >\"$TRUCE_PATH\"")
                #expect(outer.isSuccess, "\(outer.errorText)")
                #expect(try Program("cat").run(document).text == "inside\n")
                checkForcedSteps(try mount.status())
            }
        }

        @Test("`truce write` forwards SIGTERM to its command, and not SIGINT")
        func truceWriteForwardsSigtermToItsCommand() throws {
            try MountedDirectory.with { mount in
                let document = mount.path + "/document"
                let writer = try Self.write(
                    document, "trap 'exit 9' TERM; echo held; while true; do read -r -t 1 line || true; done")
                try eventually(within: .seconds(10), "the command to run") { writer.text == "held\n" }
                writer.send(SIGINT)
                writer.send(SIGTERM)
                #expect(try writer.wait(within: .seconds(10)).ending == .exited(9))
            }
        }

        @Test("When the daemon dies, the command of `truce write` goes on, and a warning is printed")
        func theCommandOfTruceWriteGoesOnWhenTheDaemonDies() throws {
            let mount = try MountedDirectory([])
            defer { mount.abandon() }
            try mount.mount()
            let writer = try Self.write(
                mount.path + "/document", "echo held; read line; echo went on; exit 4")
            try eventually(within: .seconds(10), "the command to run") { writer.text == "held\n" }
            let presenter = try TruceCommand.start("present", "--json", mount.path + "/document")
            try eventually(within: .seconds(10), "the presenter") {
                presenter.errorText.contains("presenting")
            }
            kill(try mount.daemonPID, SIGKILL)
            try eventually(within: .seconds(10), "the warning") {
                writer.errorText.contains("not held any more")
            }
            #expect(try presenter.wait(within: .seconds(10)).ending == .exited(1))
            try writer.type("\n")
            let outcome = try writer.wait(within: .seconds(10))
            #expect(outcome.ending == .exited(4))
            #expect(outcome.text == "held\nwent on\n")
        }

        private static func write(_ document: String, _ command: String) throws -> RunningProgram {
            try Script("exec \"$1\" write \"$2\" -- bash -c \"$3\"").start(
                try Lab.variable("TRUCE_BINARY"), document, command, input: .keyboard)
        }
    }

    @Suite struct WhyCommandTests {
        @Test(
            "`why` names the claim before a waiting program in the lock queue, and the holder at the queue's head"
        )
        func whyNamesTheHolderAtTheHeadOfTheLockQueue() throws {
            try MountedDirectory.with("wait=60s", "hold-aware=60s") { mount in
                let document = mount.path + "/document"
                try Script("echo old >\"$1\"").run(document)
                let writer = try Script("exec \"$1\" write \"$2\" -- bash -c \"$3\"").start(
                    try Lab.variable("TRUCE_BINARY"), document, "echo held; read line", input: .keyboard)
                try eventually(within: .seconds(10), "the command to run") { writer.text == "held\n" }
                let second = try TruceCommand.start("write", document, "--", "true")
                try mount.waitUntilParked(second.pid)
                let reader = try Program("cat").start(document)
                try mount.waitUntilParked(reader.pid)
                let why = try TruceCommand.run("why", document).text.split(separator: "\n")
                let last = why.drop { !$0.hasPrefix("cat (pid \(reader.pid)) has waited") }
                #expect(
                    last.dropFirst().prefix(2) == [
                        "  cat (\(reader.pid)) waits behind truce (\(second.pid)) for document",
                        "    truce (\(second.pid)) waits for truce (\(writer.pid)), which is writing document",
                    ], "\(why)")
                try writer.type("\n")
                try writer.wait(within: .seconds(10)).requireSuccess()
                try second.wait(within: .seconds(10)).requireSuccess()
                #expect(try reader.wait(within: .seconds(10)).text == "old\n")
                checkForcedSteps(try mount.status())
            }
        }
    }

    @Suite struct PresentedDirectoryTests {
        @Test("A directory's presenter gets events about files at any depth below it")
        func aDirectoryPresenterGetsEventsAtAnyDepth() throws {
            try MountedDirectory.with { mount in
                let folder = mount.path + "/folder"
                try Script("mkdir -p \"$1/a/b\"").run(folder)
                let presenter = try Self.present(folder)
                func wait(for notice: String, _ parts: String...) throws {
                    try eventually(within: .seconds(10), "\(notice) of \(parts): \(presenter.text)") {
                        presenter.text.split(separator: "\n").contains { line in
                            line.contains("\"method\":\"presenter/\(notice)\"")
                                && parts.allSatisfy { line.contains($0) }
                        }
                    }
                }
                try Script("echo new >\"$1/a/b/file\"").run(folder)
                try wait(for: "subitemDidAppear", "\"subitem\":{\"path\":\"folder/a/b/file\"}")
                try Script("echo more >>\"$1/a/b/file\"").run(folder)
                try wait(for: "subitemDidChange", "\"subitem\":{\"path\":\"folder/a/b/file\"}")
                try Program("mv").run(folder + "/a/b/file", folder + "/a/other")
                try wait(
                    for: "subitemDidMove", "\"subitem\":{\"path\":\"folder/a/b/file\"}",
                    "\"newSubitem\":{\"path\":\"folder/a/other\"}")
                try Program("rm").run(folder + "/a/other")
                try wait(
                    for: "subitemDidChange", "\"subitem\":{\"path\":\"folder/a/other\"}", "forDeleting")
                try Program("mkdir").run(folder + "/new")
                try wait(for: "subitemDidAppear", "\"subitem\":{\"path\":\"folder/new\"}")
                // A change outside the folder causes no event.
                try Script("echo x >\"$1/elsewhere\"").run(mount.path)
                try Program("mv").run(folder, folder + "2")
                try eventually(within: .seconds(10), "the move of the directory: \(presenter.text)") {
                    presenter.text.contains("\"newPath\":\"folder2\"")
                }
                #expect(!presenter.text.contains("elsewhere"))
                try presenter.end()
                checkForcedSteps(try mount.status())
            }
        }

        @Test(
            "A presenter below a directory is asked before the directory is renamed, and then gets the move")
        func aPresenterInADirectoryIsAskedBeforeTheDirectoryIsRenamed() throws {
            try MountedDirectory.with { mount in
                try Script("mkdir -p \"$1/a/b\" && echo text >\"$1/a/b/notes\"").run(mount.path)
                let presenter = try Self.present(mount.path + "/a/b/notes")
                try Program("mv").run(mount.path + "/a", mount.path + "/z")
                try eventually(within: .seconds(10), "the end of the turn: \(presenter.text)") {
                    presenter.text.contains("presenter/reacquire")
                }
                let methods = presenter.text.split(separator: "\n").compactMap { line in
                    line.split(separator: "\"").first { $0.hasPrefix("presenter/") }
                }
                #expect(
                    methods == ["presenter/relinquishToWriter", "presenter/didMove", "presenter/reacquire"],
                    "\(presenter.text)")
                #expect(presenter.text.contains("\"newPath\":\"z/b/notes\""))
                try presenter.end()
                checkForcedSteps(try mount.status())
            }
        }

        @Test(
            "After a presenter's directory and file were removed and made again, the presenter gets the directory's move"
        )
        func aPresenterFollowsTheNewDirectoryOfItsFile() throws {
            try MountedDirectory.with { mount in
                try Script("mkdir -p \"$1/d\" && echo text >\"$1/d/notes\"").run(mount.path)
                let presenter = try Self.present(mount.path + "/d/notes")
                // The script removes and makes the directory as git does when a user checks out another branch and returns.
                try Script("cd \"$1\" && rm -r d && mkdir d && echo again >d/notes").run(mount.path)
                try Program("mv").run(mount.path + "/d", mount.path + "/e")
                try eventually(within: .seconds(10), "the move: \(presenter.text)") {
                    presenter.text.contains("\"newPath\":\"e/notes\"")
                }
                try presenter.end()
                checkForcedSteps(try mount.status())
            }
        }

        @Test(
            "When a file from elsewhere replaces a presented file, the presenter stays with the path of the document"
        )
        func aPresenterKeepsItsPathWhenItsFileIsReplaced() throws {
            try MountedDirectory.with { mount in
                try Script("cd \"$1\" && mkdir d tmp && echo text >d/notes && echo new >tmp/new").run(
                    mount.path)
                let presenter = try Self.present(mount.path + "/d/notes")
                try Script("cd \"$1\" && mv tmp/new d/notes && mv tmp other && mv d e").run(mount.path)
                try eventually(within: .seconds(10), "the move: \(presenter.text)") {
                    presenter.text.contains("\"newPath\":\"e/notes\"")
                }
                #expect(!presenter.text.contains("other"))
                try presenter.end()
                checkForcedSteps(try mount.status())
            }
        }

        @Test("A directory's presenter gets events about the directory that replaced the presented directory")
        func aDirectoryPresenterFollowsTheReplacementOfItsDirectory() throws {
            try MountedDirectory.with { mount in
                try Script("mkdir -p \"$1/site/old\" \"$1/new/deep/er\" && echo x >\"$1/new/deep/er/file\"")
                    .run(mount.path)
                let presenter = try Self.present(mount.path + "/site")
                // The program `cat` makes a claim on a file in `new`, so the arbiter knows this directory under the name `new`.
                try Script("cd \"$1\" && cat new/deep/er/file && rm -r site && mv new site").run(mount.path)
                try Script("echo more >>\"$1/site/deep/er/file\"").run(mount.path)
                try eventually(within: .seconds(10), "the change: \(presenter.text)") {
                    presenter.text.split(separator: "\n").contains {
                        $0.contains("subitemDidChange") && $0.contains("site/deep/er/file")
                    }
                }
                try Program("mv").run(mount.path + "/site", mount.path + "/place")
                try eventually(within: .seconds(10), "the move: \(presenter.text)") {
                    presenter.text.contains("\"newPath\":\"place\"")
                }
                try presenter.end()
                checkForcedSteps(try mount.status())
            }
        }

        @Test("The rename of a directory waits for an access over the control socket to a file below it")
        func theRenameOfADirectoryWaitsForAccessesToFilesInIt() throws {
            try MountedDirectory.with("wait=60s", "hold-aware=60s") { mount in
                try Script("mkdir -p \"$1/a/b\" && echo text >\"$1/a/b/notes\"").run(mount.path)
                let writer = try Script("exec \"$1\" write \"$2\" -- bash -c \"$3\"").start(
                    try Lab.variable("TRUCE_BINARY"), mount.path + "/a/b/notes", "echo held; read line",
                    input: .keyboard)
                try eventually(within: .seconds(10), "the command to run") { writer.text == "held\n" }
                let mover = try Program("mv").start(mount.path + "/a", mount.path + "/z")
                try mount.waitUntilParked(mover.pid)
                let why = try TruceCommand.run("why", mount.path + "/a").text
                #expect(
                    why.contains(
                        "mv (\(mover.pid)) waits for truce (\(writer.pid)), which is writing a/b/notes below it"
                    ),
                    "\(why)")
                try writer.type("\n")
                try writer.wait(within: .seconds(10)).requireSuccess()
                try mover.wait(within: .seconds(10)).requireSuccess()
                #expect(try Program("cat").run(mount.path + "/z/b/notes").text == "text\n")
                checkForcedSteps(try mount.status())
            }
        }

        @Test(
            "Of two programs that wait to rename a file, the second gets ENOENT, and its claim ends"
        )
        func aRenameThatFindsItsFileGoneLeavesNoClaim() throws {
            let prepare = { (source: String) in try FileContents.write("text", to: source + "/document") }
            try MountedDirectory.with("wait=60s", "hold-aware=60s", prepare: prepare) { mount in
                let document = mount.path + "/document"
                let movers = [try ScriptedProcess(), try ScriptedProcess()]
                let writer = try Script("exec \"$1\" write \"$2\" -- bash -c \"$3\"").start(
                    try Lab.variable("TRUCE_BINARY"), document, "echo held; read line", input: .keyboard)
                try eventually(within: .seconds(10), "the command to run") { writer.text == "held\n" }
                for (index, mover) in movers.enumerated() {
                    try mover.tell(["rename", document, document + "\(index)"])
                    try mount.waitUntilParked(mover.pid)
                }
                try writer.type("\n")
                #expect(Set(try movers.map { try $0.answer() }) == ["ok", "ENOENT"])
                let status = try mount.status()
                let (granted, ended) = (status.claims(that: "granted"), status.claims(that: "ended"))
                #expect(granted.count == 3, "\(status.journalText())")
                #expect(granted.subtracting(ended).isEmpty, "\(status.journalText())")
                try writer.wait(within: .seconds(10)).requireSuccess()
                checkForcedSteps(status)
            }
        }

        @Test("A reader of one file in a package waits for a writer of another file in the package")
        func aReaderWaitsForAWriterOfAnotherFileInItsPackage() throws {
            try MountedDirectory.with("wait=60s", "hold-aware=60s") { mount in
                try Script("mkdir \"$1/a.rtfd\" && echo text >\"$1/a.rtfd/one\" && echo >\"$1/a.rtfd/two\"")
                    .run(mount.path)
                let writer = try Script("exec \"$1\" write \"$2\" -- bash -c \"$3\"").start(
                    try Lab.variable("TRUCE_BINARY"), mount.path + "/a.rtfd/two", "echo held; read line",
                    input: .keyboard)
                try eventually(within: .seconds(10), "the command to run") { writer.text == "held\n" }
                let reader = try Program("cat").start(mount.path + "/a.rtfd/one")
                try mount.waitUntilParked(reader.pid)
                let why = try TruceCommand.run("why", mount.path + "/a.rtfd").text
                #expect(why.contains("which is writing a.rtfd/two in the same package"), "\(why)")
                try writer.type("\n")
                try writer.wait(within: .seconds(10)).requireSuccess()
                #expect(try reader.wait(within: .seconds(10)).text == "text\n")
                checkForcedSteps(try mount.status())
            }
        }

        private static func present(_ path: String) throws -> RunningProgram {
            let presenter = try TruceCommand.start("present", "--json", path)
            try eventually(within: .seconds(10), "'truce present': \(presenter.errorText)") {
                presenter.errorText.contains("presenting")
            }
            return presenter
        }
    }

    @Suite struct PresentCommandTests {
        @Test(
            "A reader gets the contents that the presenter's save command wrote, and all hook commands run in order"
        )
        func hookCommandsSaveAndRunInOrder() throws {
            try MountedDirectory.with { mount in
                let document = mount.path + "/document"
                try Script("echo old >\"$1\"").run(document)
                let log = try Lab.freshDirectory("hooks") + "/log"
                let note =
                    "echo \"$TRUCE_MESSAGE $TRUCE_CAUSE_PROGRAM $TRUCE_PATH $TRUCE_NEW_PATH\" >>'\(log)'"
                let presenter = try TruceCommand.start(
                    "present", document, "--on-save", "\(note); echo saved >\"$TRUCE_PATH\"",
                    "--on-relinquish", note, "--on-reacquire", note, "--on-change", note, "--on-move", note,
                    "--on-delete", note)
                try Self.waitForRegistration(presenter, "truce: presenting '\(document)'\n")
                #expect(try Program("cat").run(document).text == "saved\n")
                try Self.wait(for: "reacquire cat", in: log)
                try Program("mv").run(document, document + "2")
                try Self.wait(for: "reacquire mv", in: log)
                try Program("rm").run(document + "2")
                try Self.wait(for: "reacquire rm", in: log)
                #expect(
                    try FileContents.text(of: log).split(separator: "\n").map { $0.trimming(" ") } == [
                        "relinquishToReader cat \(document)", "save cat \(document)",
                        "reacquire cat \(document)",
                        "relinquishToWriter mv \(document)", "didMove mv \(document) \(document)2",
                        "reacquire mv \(document)2", "relinquishToWriter rm \(document)2",
                        "accommodateDeletion rm \(document)2", "reacquire rm \(document)2",
                    ])
                presenter.send(SIGTERM)
                #expect(try presenter.wait(within: .seconds(10)).isSuccess)
                #expect(try TruceCommand.run("ps", "--json", mount.path).text.contains("\"presenters\":[]"))
                checkForcedSteps(try mount.status())
            }
        }

        @Test(
            "If a presenter's save command fails, accesses over the socket fail, and programs without the socket succeed"
        )
        func ifAPresentersSaveCommandFailsOnlyAwareAccessesFail() throws {
            try MountedDirectory.with("ask-again=0") { mount in
                let document = mount.path + "/document"
                try Script("echo old >\"$1\"").run(document)
                let presenter = try TruceCommand.start("present", document, "--on-save", "exit 5")
                try Self.waitForRegistration(presenter, "truce: presenting '\(document)'\n")
                #expect(try Program("cat").run(document).text == "old\n")
                let refused = try TruceCommand.attempt("read", document, "--", "true")
                #expect(refused.ending == .exited(125))
                #expect(
                    refused.errorText.contains("truce (\(presenter.pid)) refused"), "\(refused.errorText)")
                try presenter.end(by: SIGINT)
            }
        }

        @Test("`truce present --json` prints the messages about a file that is created later")
        func jsonModePrintsMessagesOfAFutureFile() throws {
            let mount = try MountedDirectory([])
            defer { mount.abandon() }
            try mount.mount()
            let document = mount.path + "/later"
            let presenter = try TruceCommand.start("present", "--json", document)
            try eventually(within: .seconds(10), "the presenter") {
                presenter.errorText == "truce: presenting '\(document)'\n"
            }
            try Script("echo new >\"$1\"").run(document)
            try eventually(within: .seconds(10), "the news of the new file") {
                presenter.text.contains("\"method\":\"presenter/didChange\"")
            }
            try Script("echo more >>\"$1\"").run(document)
            try eventually(within: .seconds(10), "the end of a turn") {
                presenter.text.contains("\"method\":\"presenter/reacquire\"")
            }
            for line in presenter.text.split(separator: "\n") {
                #expect(line.hasPrefix("{\"jsonrpc\":\"2.0\"") || line.hasPrefix("{\"id\":"), "\(line)")
                #expect(line.hasSuffix("}") && line.contains("\"path\":\"later\""), "\(line)")
            }
            #expect(presenter.text.contains("\"method\":\"presenter/relinquishToWriter\""))
            try mount.unmount()
            let outcome = try presenter.wait(within: .seconds(10))
            #expect(outcome.ending == .exited(1))
            #expect(
                outcome.errorText.split(separator: "\n").last == "truce: the mount at '\(mount.path)' is gone"
            )
        }

        @Test("`truce socket` prints the same socket path as the attribute of the mount")
        func truceSocketPrintsThePathOfTheMountsControlSocket() throws {
            try MountedDirectory.with { mount in
                let path = try TruceCommand.run("socket", mount.path + "/none/such").text
                #expect(path.hasSuffix(".sock\n"))
                let attribute = try Program("getfattr").run(
                    "--absolute-names", "--only-values", "--name=user.truce.socket", mount.path)
                #expect(attribute.text + "\n" == path)
                let json = try TruceCommand.run("socket", "--json", mount.path).text
                #expect(json == "{\"mountpoint\":\"\(mount.path)\",\"socket\":\"\(attribute.text)\"}\n")
            }
        }

        private static func waitForRegistration(_ presenter: RunningProgram, _ line: String) throws {
            try eventually(within: .seconds(10), "the presenter\n\(presenter.errorText)") {
                presenter.text == line
            }
        }

        private static func wait(for start: String, in log: String) throws {
            try eventually(within: .seconds(10), "'\(start)'") {
                guard let text = FileContents.ofFile(log) else { return false }
                return String(decoding: text, as: UTF8.self).split(separator: "\n").contains {
                    $0.hasPrefix(start)
                }
            }
        }
    }
}

extension Substring {
    fileprivate func trimming(_ character: Character) -> String {
        var text = self
        while text.last == character { text.removeLast() }
        return String(text)
    }
}
