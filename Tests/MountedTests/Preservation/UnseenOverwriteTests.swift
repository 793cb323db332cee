// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

/// A program that has read a document saves it, although another program has saved it in between. What the other program has
/// written is preserved as a version, and the version stays because the contents show a loss.
extension MountTests {
    @Suite struct UnseenOverwriteTests {
        static let (old, others) = ("one\ntwo\nthree\n", "one\ntwo by another\nthree\n")

        /// The ways in which a program saves "one by me" without the other program's line.
        static let ways = [
            "truncation", "rename", "place", "place, read and write", "size", "exchange", "backup, create",
            "backup, rename", "unlink, create", "append after truncation",
        ]

        static func save(_ way: String, _ document: String, by program: ScriptedProcess) throws {
            let text = "one by me, two, three"
            switch way {
            case "truncation": try program.must("put", document, text)
            case "append after truncation":
                try program.must("open", "d", document, "O_WRONLY|O_TRUNC|O_APPEND")
                try program.must("write", "d", text)
                try program.must("close", "d")
            case "rename":
                try program.must("put", document + ".new", text)
                try program.must("rename", document + ".new", document)
            case "exchange":
                try program.must("put", document + ".new", text)
                try program.must("exchange", document + ".new", document)
                try program.must("unlink", document + ".new")
            case "place", "place, read and write":
                try program.must("open", "d", document, way == "place" ? "O_WRONLY" : "O_RDWR")
                try program.must("place", "d", text)
                try program.must("close", "d")
            case "size":
                try program.must("truncate", document, "3")
            case "backup, create": try program.must("save", document, document + "~", "create", text)
            case "backup, rename": try program.must("save", document, document + "~", "rename", text)
            case "unlink, create": try program.must("save", document, "", "create", text)
            default: throw TestFailure("no way \(way)")
            }
        }

        @Test("A save over contents that the program has not read preserves them", arguments: ways)
        func aSaveOverUnseenContentsPreservesThem(way: String) throws {
            try Self.loses(way) { document, other in try other.must("put", document, Self.others.oneLine) }
        }

        @Test(
            "It does not matter how the other program has saved",
            arguments: [
                "sed -i 's/two/two by another/' document", "echo two by another >document",
                "echo two by another >>document", "echo '\"two by another\"' | jq . >new; mv new document",
                "echo two by another | sponge document", "cp other document",
                "python3 -c 'open(\"document\", \"r+\").write(\"two by another\")'",
                "vim -Nu NONE -i NONE -n -es -c '%s/two/two by another/' -c wq document",
                "truncate -s 3 document",
            ])
        func theWayOfTheOtherProgramDoesNotMatter(command: String) throws {
            let prepare = { (source: String) in
                try FileContents.write(Self.old, to: source + "/document")
                try FileContents.write("two by another\n", to: source + "/other")
            }
            try MountedDirectory.with(prepare: prepare) { mount in
                let (document, program) = (mount.path + "/document", try ScriptedProcess())
                try program.must("read", document)
                try Script("eval \"$1\"").run(command, at: mount.path)
                let others = try FileContents.text(of: mount.below + "/document")
                try program.must("put", document, "by me")
                try Self.checkLoss([others], in: mount)
            }
        }

        @Test("A program's read counts after the kernel has forgotten the file for lack of memory (D266)")
        func aReadCountsAfterTheKernelHasForgottenTheFile() throws {
            guard geteuid() == 0 else {
                return print("only root makes the kernel forget files: shown by the run as root")
            }
            try Self.loses("truncation") { document, other in
                try Script("sync; echo 2 >/proc/sys/vm/drop_caches").run(within: .seconds(60))
                try other.must("put", document, Self.others.oneLine)
                try Script("sync; echo 2 >/proc/sys/vm/drop_caches").run(within: .seconds(60))
            }
        }

        /// Lets one program read the document, another save it, and the first save it by `way`.
        static func loses(
            _ way: String, _ other: (String, ScriptedProcess) throws -> Void
        ) throws {
            let prepare = { (source: String) in try FileContents.write(Self.old, to: source + "/document") }
            try MountedDirectory.with(prepare: prepare) { mount in
                let document = mount.path + "/document"
                let (program, second) = (try ScriptedProcess(), try ScriptedProcess())
                try program.must("read", document)
                try other(document, second)
                let others = try FileContents.text(of: mount.below + "/document")
                try save(way, document, by: program)
                try checkLoss([others], in: mount)
                checkForcedSteps(try mount.status())
            }
        }

        /// Checks that exactly these contents were preserved, because they were lost from the document.
        static func checkLoss(_ contents: [String], in mount: MountedDirectory) throws {
            try eventually(within: .seconds(20), "the overwrites to be compared") {
                let counters = try mount.counters
                return counters.unseen + counters.harmless == counters.suspected && counters.suspected > 0
            }
            let counters = try mount.counters
            let versions = try mount.kept("document").filter { $0.cause == "unseen" }
            let texts = try versions.map { try mount.text(ofKept: $0.id) }
            let journal = try mount.status().journalText
            #expect(Set(texts) == Set(contents), "\(counters.summary)\n\(journal)")
            #expect(counters.unseen == contents.count && texts.count == contents.count)
        }

        @Test(
            "An editor that holds a text for long preserves what another program has saved",
            arguments: [
                "vim backupcopy=yes", "vim backupcopy=no", "vim backupcopy=auto", "vim nowritebackup",
                "nvim backupcopy=yes", "nvim backupcopy=no", "nvim backupcopy=auto",
            ])
        func anEditorPreservesWhatAnotherProgramHasSaved(mode: String) throws {
            let prepare = { (source: String) in try FileContents.write(Self.old, to: source + "/document") }
            try MountedDirectory.with(prepare: prepare) { mount in
                let words = mode.split(separator: " ").map(String.init)
                let document = mount.path + "/document"
                let editor =
                    words[0] == "vim"
                    ? try Program("vim").start(
                        "-Nu", "NONE", "-i", "NONE", "-n", "-es", "--cmd", "set \(words[1])", document,
                        input: .keyboard)
                    : try Program("nvim").start(
                        "--clean", "-n", "-i", "NONE", "-es", "--cmd", "set \(words[1])", document,
                        input: .keyboard)
                try editor.type("1s/one/one by me/\n1p\n")
                try eventually(within: .seconds(20), "\(mode) to have read") { editor.text.contains("by me") }
                // Vim would ask whether it may save over a newer file. So the other program leaves the file's times as they were.
                try Program("python3").run("-c", Self.quietly, document, Self.others.oneLine)
                try editor.type("w!\nq!\n")
                _ = try editor.wait(within: .seconds(20))
                let saved = try FileContents.text(of: mount.below + "/document")
                #expect(saved == "one by me\ntwo\nthree\n")
                try Self.checkLoss([Self.others.oneLine], in: mount)
            }
        }

        static let quietly = """
            import os, sys
            status = os.stat(sys.argv[1])
            with open(sys.argv[1], "w") as file:
                file.write(sys.argv[2])
            os.utime(sys.argv[1], ns=(status.st_atime_ns, status.st_mtime_ns))
            """

        @Test("Emacs preserves what another program has saved", arguments: ["t", "nil"])
        func emacsPreservesWhatAnotherProgramHasSaved(copies: String) throws {
            let program = """
                (progn
                  (setq backup-by-copying \(copies) create-lockfiles nil)
                  (fset 'ask-user-about-supersession-threat (lambda (&rest _) t))
                  (fset 'userlock--ask-user-about-supersession-threat (lambda (&rest _) t))
                  (fset 'yes-or-no-p (lambda (&rest _) t))
                  (find-file (pop command-line-args-left))
                  (princ "ready\\n")
                  (read-from-minibuffer "")
                  (goto-char (point-min)) (insert "by me ")
                  (save-buffer))
                """
            let prepare = { (source: String) in try FileContents.write(Self.old, to: source + "/document") }
            try MountedDirectory.with(prepare: prepare) { mount in
                let document = mount.path + "/document"
                let editor = try Program("emacs").start(
                    "-Q", "--batch", "--eval", program, document, input: .keyboard)
                try eventually(within: .seconds(30), "Emacs to have read") { editor.text.contains("ready") }
                try ScriptedProcess().must("put", document, Self.others.oneLine)
                try editor.type("\n")
                try editor.wait(within: .seconds(20)).requireSuccess()
                #expect(try FileContents.text(of: mount.below + "/document") == "by me " + Self.old)
                try Self.checkLoss([Self.others.oneLine], in: mount)
            }
        }

        /// The editors that need a terminal, each with the keys that save.
        private static let terminalEditors = [
            ("nano --ignorercfiles", ["\u{0F}", "\r"], "\u{18}"),
            ("nano --ignorercfiles --backup", ["\u{0F}", "\r"], "\u{18}"),
            ("micro -config-dir ../settings", ["\u{13}"], "\u{11}"),
        ]

        @Test("An editor in a terminal preserves what another program has saved", arguments: terminalEditors)
        func anEditorInATerminalPreservesWhatAnotherProgramHasSaved(
            command: String, save: [String], leave: String
        ) throws {
            let prepare = { (source: String) in try FileContents.write(Self.old, to: source + "/document") }
            try MountedDirectory.with(prepare: prepare) { mount in
                try Script("mkdir -p \"$1\"/../settings").run(mount.path)
                let editor = try Program("script").start(
                    "--quiet", "--return", "--flush", "--command",
                    "stty rows 24 cols 80; exec env TERM=xterm \(command) document", "/dev/null",
                    at: mount.path, input: .keyboard)
                try eventually(within: .seconds(20), "\(command) to have read") {
                    editor.text.contains("three")
                }
                try editor.type("by me ")
                try eventually(within: .seconds(20), "\(command) to have changed its text") {
                    editor.text.contains("Modified") || editor.text.contains("+ (")
                }
                // The editor would ask whether it may save over a newer file. So the file's times stay as they were.
                try Program("python3").run(
                    "-c", Self.quietly, mount.path + "/document", Self.others.oneLine)
                for keys in save { try editor.type(keys) }
                let saved = "by me " + Self.old
                try eventually(within: .seconds(20), "\(command) to save") {
                    try FileContents.text(of: mount.below + "/document") == saved
                }
                try editor.type(leave)
                _ = try editor.wait(within: .seconds(20))
                try Self.checkLoss([Self.others.oneLine], in: mount)
            }
        }

        @Test("Kakoune preserves what another program has saved", arguments: ["overwrite", "replace"])
        func kakounePreservesWhatAnotherProgramHasSaved(method: String) throws {
            let prepare = { (source: String) in try FileContents.write(Self.old, to: source + "/document") }
            try MountedDirectory.with(prepare: prepare) { mount in
                try Self.saveByKakoune("document", method, in: mount)
                try Self.checkLoss([Self.others.oneLine], in: mount)
            }
        }

        /// Lets Kakoune open a document, another program save it, and Kakoune save it by `method`. Just before its save, Kakoune
        /// runs the command `helper`.
        static func saveByKakoune(
            _ name: String, _ method: String, helper: String = ":", in mount: MountedDirectory
        ) throws {
            let (document, place) = ("\(mount.path)/\(name)", try Lab.freshDirectory("kakoune"))
            try Script("mkfifo \"$1/go\"").run(place)
            let commands = """
                set-option global writemethod \(method)
                execute-keys 'ggiby<space>me<space><esc>'
                nop %sh{ : >'\(place)/ready'; read -r line <'\(place)/go'; \(helper) >/dev/null }
                write!
                quit!
                """
            let editor = try Program("kak").start(
                "-n", "-ui", "dummy", "-e", commands, document, input: .keyboard)
            try eventually(within: .seconds(20), "Kakoune to have read") {
                FileManager.default.fileExists(atPath: place + "/ready")
            }
            try ScriptedProcess().must("put", document, others.oneLine)
            try Script("echo >\"$1/go\"").run(place)
            try editor.wait(within: .seconds(20)).requireSuccess()
            #expect(try FileContents.text(of: "\(mount.below)/\(name)") == "by me " + old)
        }

        /// An agent that reads and writes files only by commands of its own.
        private static let agent = """
            import subprocess, sys
            for line in sys.stdin:
                way, text = line.rstrip("\\n").split("\\t")
                if way == "read":
                    subprocess.run(["bash", "-c", "cat \\"$1\\"", "-", sys.argv[1]], check=True)
                else:
                    subprocess.run(["bash", "-c", "cat >\\"$1\\"", "-", sys.argv[1]], input=text.encode(), check=True)
                    print("written", flush=True)
            """

        @Test("Two agents that one script starts, and that read and write by other programs, are told apart")
        func twoAgentsOfOneScriptAreToldApart() throws {
            let prepare = { (source: String) in try FileContents.write("old\n", to: source + "/document") }
            try MountedDirectory.with(prepare: prepare) { mount in
                let document = mount.path + "/document"
                // The first write makes the daemon remember the document.
                try Script("cat \"$1\" >/dev/null; echo first >\"$1\"").run(document)
                let agents = try (0..<2).map { _ in
                    try Program("python3").start("-c", Self.agent, document, input: .keyboard)
                }
                for agent in agents {
                    try agent.type("read\t\n")
                    try eventually(within: .seconds(20), "an agent to read") { agent.text == "first\n" }
                }
                for (number, agent) in agents.enumerated() {
                    try agent.type("write\tby agent \(number)\n")
                    try eventually(within: .seconds(20), "an agent to write") {
                        agent.text.hasSuffix("written\n")
                    }
                }
                try Self.checkLoss(["by agent 0"], in: mount)
                for agent in agents { try agent.end() }
            }
        }

        @Test("With `unseen = \"fail\"`, the step gets EBUSY and nothing is changed", arguments: ways)
        func aRefusedSaveChangesNothing(way: String) throws {
            let home = try Lab.freshDirectory("home")
            try Script(
                "mkdir \"$1/truce\"; printf '%s\\n' '[[paths]]' 'pattern = \"*\"' 'unseen = \"fail\"' >\"$1/truce/truce.toml\""
            )
            .run(home)
            let mount = try MountedDirectory(environment: ["XDG_CONFIG_HOME": home])
            try FileContents.write(Self.old, to: mount.path + "/document")
            try mount.mount()
            do {
                let document = mount.path + "/document"
                let (program, other) = (try ScriptedProcess(), try ScriptedProcess())
                try program.must("read", document)
                try other.must("put", document, Self.others.oneLine)
                #expect(throws: TestFailure.self) { try Self.save(way, document, by: program) }
                #expect(program.answers.last == "EBUSY")
                #expect(try FileContents.text(of: mount.below + "/document") == Self.others.oneLine)
                try program.program.end()
                try mount.unmount()
            } catch {
                mount.abandon()
                throw error
            }
        }
    }
}

extension String {
    /// The text without line ends, which the commands of `actor` cannot contain.
    var oneLine: String { split(separator: "\n").joined(separator: ", ") }
}
