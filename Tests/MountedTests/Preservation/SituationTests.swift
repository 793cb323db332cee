// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

extension MountTests {
    /// Situations in which it is not obvious whether a program has seen the contents that it saves over.
    @Suite struct SituationTests {
        private static let (old, others) = (UnseenOverwriteTests.old, UnseenOverwriteTests.others)

        /// Lets programs work on some documents, and checks which contents were preserved of each document as unseen ones.
        /// `harmless` is the number of overwrites that were suspected, and by which nothing was lost.
        private static func check(
            _ losses: [String: [String]], harmless: UInt64 = 0, documents: [String],
            _ body: (MountedDirectory) throws -> Void
        ) throws {
            let prepare = { (source: String) in
                for name in documents { try FileContents.write(old, to: "\(source)/\(name)") }
            }
            try MountedDirectory.with(prepare: prepare) { mount in
                try body(mount)
                let lost = UInt64(losses.values.reduce(0) { $0 + $1.count })
                try eventually(within: .seconds(20), "the overwrites to be compared") {
                    let counters = try mount.counters
                    return counters.unseen + counters.harmless == counters.suspected
                        && counters.suspected >= lost + harmless
                }
                let (counters, journal) = (try mount.counters, try mount.status().journalText)
                #expect(
                    counters.unseen == lost && counters.harmless == harmless,
                    "\(counters.summary)\n\(journal)")
                for name in documents {
                    let versions = try mount.kept(name).filter { $0.cause == "unseen" }
                    let texts = try versions.map { try mount.text(ofKept: $0.id) }
                    #expect(texts.sorted() == losses[name, default: []].sorted(), "\(name)\n\(journal)")
                }
            }
        }

        @Test(
            "What a child process of an editor reads for it, the editor has seen; a helper program sees for itself only"
        )
        func aHelperOfAnEditorSeesForIt() throws {
            let helpers = [
                ("child", "cat \"$kak_buffile\""),
                ("program", "python3 -c \"import sys; open(sys.argv[1]).read()\" \"$kak_buffile\""),
            ]
            let losses = ["program": [Self.others.oneLine]]
            try Self.check(losses, documents: ["child", "program", "vim"]) { mount in
                for (name, helper) in helpers {
                    try UnseenOverwriteTests.saveByKakoune(name, "overwrite", helper: helper, in: mount)
                }
                // Vim reads a file to make a backup, just before it saves. A read by its child process is no such read.
                let document = mount.path + "/vim"
                let editor = try Program("vim").start(
                    "-Nu", "NONE", "-i", "NONE", "-n", "-es", document, input: .keyboard)
                try editor.type("1s/one/one by me/\n1p\n")
                try eventually(within: .seconds(20), "Vim to have read") { editor.text.contains("by me") }
                try Program("python3").run("-c", UnseenOverwriteTests.quietly, document, Self.others.oneLine)
                try editor.type("call system(\"cat '\(document)'\")\nw!\nq!\n")
                _ = try editor.wait(within: .seconds(20))
                #expect(try FileContents.text(of: mount.below + "/vim") == "one by me\ntwo\nthree\n")
            }
        }

        /// A program that works on files on command: by commands of its own, by itself, and by a mapping.
        private static let worker = """
            import mmap, subprocess, sys
            for line in sys.stdin:
                way, name, text = line.rstrip("\\n").split("\\t")
                text = text.replace("|", "\\n")
                if way == "cat":
                    subprocess.run(["bash", "-c", 'cat "$1" >/dev/null', "-", name], check=True)
                elif way == "pipe":
                    subprocess.run(["bash", "-c", 'cat >"$1"', "-", name], input=text.encode(), check=True)
                elif way == "map":
                    with open(name, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as view:
                        bytes(view)
                else:
                    with open(name, "w") as file:
                        file.write(text)
                print("done", flush=True)
            """

        /// Sends a command to ``worker``, and waits until the command is done.
        private static func order(
            _ worker: RunningProgram, _ way: String, _ document: String, _ text: String = ""
        )
            throws
        {
            let before = worker.text
            try worker.type("\(way)\t\(document)\t\(text)\n")
            try eventually(within: .seconds(20), "'\(way)' for \(document)\n\(worker.errorText)") {
                worker.text == before + "done\n"
            }
        }

        @Test(
            "What a formatter changes between an agent's read and its write is lost, unless the agent reads again"
        )
        func aFormatterChangesADocumentBeforeAnAgentWrites() throws {
            let losses = ["sed": ["one\nTWO\nthree\n"], "python": ["one\nTwo\nthree\n"]]
            try Self.check(losses, harmless: 1, documents: ["sed", "python", "again", "merged"]) { mount in
                let agent = try Program("python3").start("-c", Self.worker, input: .keyboard)
                let title = """
                    import sys
                    with open(sys.argv[1]) as file:
                        text = file.read()
                    with open(sys.argv[1], "w") as file:
                        file.write(text.replace("two", "Two"))
                    """
                for name in ["sed", "python", "again", "merged"] {
                    let document = "\(mount.path)/\(name)"
                    // The first write makes the daemon remember the document.
                    try FileContents.write(Self.old, to: document)
                    try Self.order(agent, "cat", document)
                    if name == "python" {
                        try Program("setsid").run("--wait", "python3", "-c", title, document)
                    } else {
                        try Program("setsid").run("--wait", "sed", "-i", "s/two/TWO/", document)
                    }
                    if name == "again" { try Self.order(agent, "cat", document) }
                    let second = name == "merged" ? "TWO" : "two"
                    try Self.order(agent, "pipe", document, "one by agent|\(second)|three|")
                }
                try agent.end()
            }
        }

        @Test(
            "What a program has written itself, it has seen; what a shell has written for another command, it has not"
        )
        func aProgramSavesAgainWhatItHasWritten() throws {
            try Self.check(["own": ["others"]], documents: ["own", "shell"]) { mount in
                let (program, other) = (try ScriptedProcess(), try ScriptedProcess())
                let shell = try Program("setsid").start(
                    "bash", "-c", "while read -r line; do eval \"$line\"; echo done; done", at: mount.path,
                    input: .keyboard)
                try program.must("put", mount.path + "/own", "mine")
                try shell.type("date >shell\n")
                try eventually(within: .seconds(20), "the shell to write") { shell.text == "done\n" }
                for name in ["own", "shell"] { try other.must("put", "\(mount.path)/\(name)", "others") }
                try program.must("put", mount.path + "/own", "mine again")
                try shell.type("date >shell\n")
                try eventually(within: .seconds(20), "the shell to write again") {
                    shell.text == "done\ndone\n"
                }
                shell.endInput()
                _ = try shell.wait(within: .seconds(20))
            }
        }

        @Test("A program that maps a file has read it")
        func aProgramThatMapsAFileHasReadIt() throws {
            try Self.check(["once": ["others"]], documents: ["once", "again"]) { mount in
                let (program, other) = (
                    try Program("python3").start("-c", Self.worker, input: .keyboard), try ScriptedProcess()
                )
                for name in ["once", "again"] {
                    let document = "\(mount.path)/\(name)"
                    try Self.order(program, "map", document)
                    try other.must("put", document, "others")
                    if name == "again" { try Self.order(program, "map", document) }
                    try Self.order(program, "put", document, "by me")
                }
                try program.end()
            }
        }

        /// Two agents as threads of one process. They first overwrite each other's work, and then write by compare-and-swap.
        private static let threads = """
            import subprocess, sys, threading
            name, truce = sys.argv[1:]
            def in_thread(body, *arguments):
                thread = threading.Thread(target=body, args=arguments)
                thread.start()
                thread.join()
            bases, codes = {}, []
            def read(agent):
                bases[agent] = open(name).read()
            def write(agent):
                with open(name, "w") as file:
                    file.write(bases[agent] + agent)
            for step in read, write:
                for agent in "first", "second":
                    in_thread(step, agent)
            def look(agent):
                found = subprocess.run([truce, "generation", name], check=True, capture_output=True, text=True)
                bases[agent] = found.stdout.strip()
            def swap(agent):
                command = [truce, "write", "--if-generation", bases[agent], name, "--", "sh", "-c", 'echo "$0" >"$TRUCE_PATH"', agent]
                codes.append(subprocess.run(command, capture_output=True).returncode)
            for step in look, swap:
                for agent in "third", "fourth":
                    in_thread(step, agent)
            print(*codes)
            """

        @Test("Two agents in one process are not told apart; compare-and-swap finds what they would lose")
        func twoAgentsInOneProcessNeedCompareAndSwap() throws {
            try Self.check([:], documents: ["document"]) { mount in
                try ScriptedProcess().must("put", mount.path + "/document", "old")
                let codes = try Program("python3").run(
                    "-c", Self.threads, mount.path + "/document", Lab.variable("TRUCE_BINARY"))
                #expect(codes.text == "0 123\n")
                #expect(try FileContents.text(of: mount.below + "/document") == "third\n")
            }
        }

        @Test(
            "git merges, rebases and resets, appends, SQLite and blind writers cause no alarm; a save over their result does"
        )
        func blindWritersCauseNoAlarm() throws {
            let text = (1...9).map { "line \($0)\n" }.joined()
            let prepare = { (source: String) in try FileContents.write(text, to: source + "/document") }
            try MountedDirectory.with(prepare: prepare) { mount in
                let (document, reader) = (mount.path + "/document", try ScriptedProcess())
                try reader.must("read", document)
                let environment = [
                    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@a", "GIT_COMMITTER_NAME": "a",
                    "GIT_COMMITTER_EMAIL": "a@a",
                ]
                for command in Self.blindWriters {
                    let ended = try Program("setsid").attempt(
                        "--wait", "bash", "-c", command, at: mount.path, with: environment)
                    #expect(ended.ending == .exited(0), "\(command): \(ended.text)\(ended.errorText)")
                }
                let (counters, journal) = (try mount.counters, try mount.status().journalText)
                #expect(counters.suspected == 0, "\(counters.summary)\n\(journal)")
                try mount.checkVersions(are: [])
                let last = try FileContents.text(of: mount.below + "/document")
                try reader.must("put", document, "by me")
                try UnseenOverwriteTests.checkLoss([last], in: mount)
            }
        }

        private static let blindWriters = [
            "git init -qb main && git add document && git commit -qm 1",
            "git checkout -qb side && sed -i 's/line 1/LINE 1/' document && git commit -qam 2",
            "git checkout -q main && sed -i 's/line 9/LINE 9/' document && git commit -qam 3",
            "git merge -q -m 4 side && grep -q 'LINE 1' document && grep -q 'LINE 9' document",
            "git checkout -qb other HEAD~1 && sed -i 's/line 5/LINE 5/' document && git commit -qam 5",
            "git rebase -q main && grep -q 'LINE 1' document && grep -q 'LINE 5' document",
            "git reset -q --hard main && ! grep -q 'LINE 5' document",
            "git cherry-pick ORIG_HEAD && grep -q 'LINE 5' document",
            "sed -i 's/line 7/LINE 7/' document && git stash -q && git stash pop -q",
            "echo more >>document", "echo more | tee -a document", "sort -r -o document document",
            "tac document >new && mv new document", "date >document", ": >document",
            "python3 -c 'import sqlite3; d = sqlite3.connect(\"data.db\"); d.execute(\"create table t (a)\"); d.commit()'",
            "python3 -c 'import sqlite3; d = sqlite3.connect(\"data.db\"); d.execute(\"insert into t values (1)\"); d.commit()'",
            "echo generated >document",
        ]

        @Test("A change around the mount is suspected as soon as a program saves over it")
        func aChangeAroundTheMountIsSeenByNoProgram() throws {
            let (source, place) = (try Lab.freshDirectory("source"), try Lab.freshDirectory("place"))
            for name in ["alone", "shared", "again"] {
                try FileContents.write(Self.old, to: "\(source)/\(name)")
            }
            try TruceCommand.run("mount", source, place)
            do {
                let (program, other) = (try ScriptedProcess(), try ScriptedProcess())
                try other.must("put", place + "/shared", "by another")
                for name in ["alone", "shared", "again"] { try program.must("read", "\(place)/\(name)") }
                let before = try Self.status(of: place).around.changes
                for name in ["shared", "alone", "again"] {
                    try FileContents.write("around, \(name)", to: "\(source)/\(name)")
                }
                // A change of the file that a program has just written through the mount may be counted or not.
                try eventually(within: .seconds(10), "the changes around the mount to be noticed") {
                    try Self.status(of: place).around.changes >= before + 2
                }
                #expect(try program.must("read", place + "/again") == "around, again")
                for name in ["alone", "shared", "again"] {
                    try program.must("put", "\(place)/\(name)", "by me")
                }
                try eventually(within: .seconds(20), "the overwrites to be compared") {
                    let counters = try Self.status(of: place).counters
                    return counters.unseen == 2 && counters.suspected == 2
                }
                for name in ["alone", "shared", "again"] {
                    let versions = try TruceCommand.run("versions", "--json", "--all", "\(place)/\(name)")
                        .text
                    #expect(versions.contains("\"unseen\"") == (name != "again"), "\(name): \(versions)")
                }
                try program.program.end()
                try other.program.end()
            } catch {
                _ = try TruceCommand.attempt("unmount", "--lazy", place)
                throw error
            }
            try TruceCommand.run("unmount", place)
        }

        private struct Status: Decodable {
            struct Around: Decodable {
                let changes: UInt64
            }
            struct Counters: Decodable {
                let suspected: UInt64
                let unseen: UInt64
            }
            let around: Around
            let counters: Counters
        }

        private static func status(of place: String) throws -> Status {
            let output = try TruceCommand.run("status", "--json", place).output
            return try JSONDecoder().decode(Status.self, from: Data(output))
        }
    }
}
