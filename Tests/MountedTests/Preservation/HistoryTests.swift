// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

extension MountTests {
    /// Checks what the history says about real programs.
    @Suite struct HistoryTests {
        /// Returns the lines of `truce log` without their times, when the last of them ends with `end`.
        ///
        /// Events are recorded up to 400 ms late, so the test waits for the last one.
        private static func log(_ path: String, until end: String, _ options: String...) throws -> [String] {
            var lines: [String] = []
            try eventually(within: .seconds(10), "an event '\(end)' in the history") {
                let text = try Script("exec \"$@\"").attempt(
                    arguments: [try Lab.variable("TRUCE_BINARY"), "log", path] + options
                ).requireSuccess().text
                lines = text.split(separator: "\n").map {
                    String($0.dropFirst("2026-11-28 14:02:09  ".count))
                }
                return lines.contains { $0.contains(end) }
            }
            return lines
        }

        @Test("A new file, a write, a move and a deletion are in the history, each with its program")
        func theStepsOfProgramsAreInTheHistory() throws {
            try MountedDirectory.with { mount in
                let (old, new) = (mount.path + "/old.md", mount.path + "/new.md")
                try Program("touch").run(old)
                try Program("dd").run("if=/dev/zero", "of=\(old)", "bs=4", "count=1", "status=none")
                try Program("mv").run(old, new)
                try Program("rm").run(new)
                let lines = try Self.log(mount.path, until: "deleted by rm")
                let words = lines.map { $0.replacing(/\s\(\d+\)/, with: "") }
                #expect(
                    words == [
                        "old.md  created by touch", "old.md  written by dd", "old.md  moved to new.md by mv",
                        "new.md  deleted by rm",
                    ])
            }
        }

        @Test("A save by rename is one write of the document, and its temporary file is not in the history")
        func aSaveByRenameIsAWrite() throws {
            try MountedDirectory.with(prepare: { try FileContents.write("a\n", to: $0 + "/notes.md") }) {
                mount in
                let notes = mount.path + "/notes.md"
                try Program("sed").run("-i", "s/a/b/", notes)
                let lines = try Self.log(notes, until: "written by sed")
                #expect(lines.count == 1)
                try FileContents.write("c", to: notes + ".tmp")
                try Program("mv").run(notes + ".tmp", notes)
                let both = try Self.log(notes, until: "written by mv")
                #expect(both.count == 2 && both.last?.hasSuffix(", which renamed notes.md.tmp") ?? false)
            }
        }

        @Test("Vim's saves with and without a backup are writes of the document")
        func savesByVimAreWrites() throws {
            try MountedDirectory.with(prepare: { try FileContents.write("a\n", to: $0 + "/notes.md") }) {
                mount in
                let notes = mount.path + "/notes.md"
                for (number, copy) in ["yes", "no"].enumerated() {
                    try Program("vim").run(
                        "-N", "-u", "NONE", "-es", "-c", "set backup backupcopy=\(copy)", "-c",
                        "s/$/\(number)/",
                        "-c", "wq", notes)
                    try eventually(within: .seconds(10), "the write by vim in the history") {
                        let lines = try Self.log(notes, until: "written by vim")
                        return lines.count { $0.contains("written by vim") } == number + 1
                            && lines.allSatisfy { $0.contains("written by vim") }
                    }
                }
            }
        }

        @Test("The history outlives the daemon, and is found under a document's new path")
        func theHistoryOutlivesTheDaemon() throws {
            try MountedDirectory.with { mount in
                let folder = mount.path + "/folder"
                try Program("mkdir").run(folder)
                try Program("touch").run(folder + "/a.md")
                _ = try Self.log(folder, until: "created by touch")
                try mount.kill()
                try mount.mount()
                try Program("mv").run(folder, mount.path + "/moved")
                let lines = try Self.log(mount.path + "/moved/a.md", until: "moved to moved")
                #expect(lines.first?.hasPrefix("folder/a.md  created by touch") ?? false)
                let json = try TruceCommand.run("log", mount.path, "--json", "-n", "1").text
                #expect(json.contains(#""kind":"moved""#) && json.contains(#""newPath":"moved""#))
                #expect(try Self.log(mount.path, until: "created by touch", "--by", "touch").count == 1)
                #expect(try TruceCommand.run("log", mount.path, "--by", "nothing").text == "")
                let wrong = try TruceCommand.attempt("log", mount.path, "--since", "soon")
                #expect(wrong.ending == .exited(2))
                #expect(wrong.errorText.contains("'soon' is no time"))
            }
        }

        @Test("A question to a presenter and a read of a presented document are in the history")
        func questionsAndReadsAreInTheHistory() throws {
            try MountedDirectory.with(prepare: PresenterTests.writeNotes) { mount in
                let notes = mount.path + "/notes.md"
                let saver = try SaveCountingPresenter(notes)
                try Program("cat").run(notes)
                let lines = try Self.log(notes, until: "read by cat")
                #expect(lines.contains { $0.contains("was asked: save for cat") })
                try saver.program.end()
            }
        }

        @Test("'truce watch' prints an event soon after it has happened")
        func watchPrintsEvents() throws {
            try MountedDirectory.with { mount in
                let watch = try TruceCommand.start("watch", mount.path)
                // The first event that the command prints shows that it watches. Until then, files are made.
                var count = 0
                try eventually(within: .seconds(10), "the first line of 'truce watch'") {
                    count += 1
                    try Program("touch").run("\(mount.path)/\(count).md")
                    return watch.text.contains("created by touch")
                }
                try Program("rm").run(mount.path + "/1.md")
                try eventually(within: .seconds(10), "the deletion in the output of 'truce watch'") {
                    watch.text.contains("1.md  deleted by rm")
                }
                try watch.end()
            }
        }

        @Test("'truce undo' takes back what the programs of a run wrote, and lists what stays")
        func undoTakesARunBack() throws {
            let names = ["cut.md", "edited.md", "renamed.md", "touched.md", "gone.md"]
            try MountedDirectory.with(prepare: { source in
                for name in names { try FileContents.write("before \(name)\n", to: "\(source)/\(name)") }
            }) { mount in
                let truce = try Lab.variable("TRUCE_BINARY")
                let agent = """
                    cd "$1" && echo agent >cut.md && sed -i s/before/agent/ edited.md
                    echo agent >new && mv new renamed.md && echo agent >>touched.md && rm gone.md && echo agent >made.md
                    echo again >>cut.md
                    """
                try Script("cd \"$1\" && exec \"$2\" run --name agent -- sh -c \"$3\" sh \"$1\"").run(
                    mount.path, truce, agent)
                try Script("echo mine >>\"$1\"/touched.md").run(mount.path)
                _ = try Self.log(mount.path + "/touched.md", until: "written by", "--by", "agent")
                try eventually(within: .seconds(10), "the last write in the history") {
                    try Self.log(mount.path + "/touched.md", until: "written by").count {
                        $0.contains("written by")
                    } == 2
                }
                let plan = try TruceCommand.attempt("undo", "--by", "agent", "--dry-run", mount.path)
                #expect(plan.ending == .exited(1))
                #expect(try FileContents.text(of: mount.path + "/cut.md") == "agent\nagain\n")
                let undo = try TruceCommand.attempt("undo", "--by", "agent", mount.path)
                #expect(undo.ending == .exited(1))
                for name in ["cut.md", "edited.md", "renamed.md"] {
                    #expect(undo.text.contains("\(name): restored from version"))
                    #expect(try FileContents.text(of: "\(mount.path)/\(name)") == "before \(name)\n")
                }
                #expect(undo.text.contains("has changed it since; version"))
                #expect(
                    try FileContents.text(of: mount.path + "/touched.md")
                        == "before touched.md\nagent\nmine\n")
                #expect(undo.text.contains("gone.md: made again from version"))
                #expect(try FileContents.text(of: mount.path + "/gone.md") == "before gone.md\n")
                #expect(undo.text.contains("made.md: stays: the run made it"))
                #expect(undo.errorText.contains("2 of 6 documents stay"))
                let nothing = try TruceCommand.attempt("undo", "--by", "no-such-run", mount.path)
                #expect(nothing.ending == .exited(3))
            }
        }

        @Test("'truce undo' lists what the run moved and replaced by a link, and makes directories again")
        func undoOfMovesAndDirectories() throws {
            let prepare = """
                cd "$1" && for f in moved over under linked; do echo "old $f" >$f.md; done
                mkdir -p folder/inner && echo deep >folder/inner/deep.md
                """
            try MountedDirectory.with(prepare: { try Script(prepare).run($0) }) { mount in
                let truce = try Lab.variable("TRUCE_BINARY")
                let agent = """
                    mv moved.md elsewhere.md; mv over.md under.md; ln -sf under.md linked.md; rm -r folder
                    mkdir made made/empty; echo made >made/file.md
                    """
                try Script("cd \"$1\" && exec \"$2\" run --name agent -- sh -c \"$3\"").run(
                    mount.path, truce, agent)
                let undo = try TruceCommand.attempt("undo", "--by", "agent", "--created", mount.path)
                let report = "\(undo.text)\(undo.errorText)"
                let lines = undo.text.split(separator: "\n").map(String.init)
                #expect(undo.ending == .exited(1))
                for line in [
                    "elsewhere.md: stays: the run moved it from moved.md",
                    "over.md: stays: the run renamed it over under.md, which has its contents, or a version of it",
                    "folder: made again; only its owner can use it", "made/empty: removed", "made: removed",
                ] {
                    #expect(lines.contains(line), "\(report)")
                }
                let linked = try #require(lines.first { $0.hasPrefix("linked.md: stays: ") }, "\(report)")
                #expect(linked.contains(" to its place; version "), "\(report)")
                #expect(try FileContents.text(of: mount.path + "/under.md") == "old under\n")
                #expect(try FileContents.text(of: mount.path + "/folder/inner/deep.md") == "deep\n")
                // What the command removes is preserved first.
                let removed = try #require(
                    lines.first { $0.hasPrefix("made/file.md: removed; version ") }, "\(report)")
                let version = String(removed.split(separator: " ")[3])
                #expect(try TruceCommand.run("versions", mount.path, "show", version).text == "made\n")
            }
        }

        @Test("'truce undo' leaves what another program wrote a moment after the run, and has not closed yet")
        func undoLeavesAnOpenWriter() throws {
            try MountedDirectory.with(
                "hold=1s,wait=3s", prepare: { try FileContents.write("before\n", to: $0 + "/a.md") }
            ) { mount in
                // The shell writes before the daemon has appended the run's step to the history. The kernel's time of a write
                // can be a few milliseconds old, so the time of this write is set to one that is later in any case.
                let script = """
                    cd "$1" && "$2" run --name agent -- sh -c 'echo agent >a.md' && exec 3<>a.md && printf 'MINE!' >&3
                    touch -h -d '2 seconds' a.md && "$2" undo --by agent a.md
                    """
                let undo = try Script(script).attempt(mount.path, try Lab.variable("TRUCE_BINARY"))
                #expect(undo.ending == .exited(1), "\(undo.text)\(undo.errorText)")
                #expect(undo.text.hasPrefix("a.md: stays: it was changed since"), "\(undo.text)")
                #expect(try FileContents.text(of: mount.path + "/a.md") == "MINE!\n")
            }
        }

        @Test("'truce undo' leaves a document alone whose directory was replaced by a symbolic link")
        func undoFollowsNoLink() throws {
            let prepare = "cd \"$1\" && mkdir drafts other && echo old >drafts/a.md && echo mine >other/a.md"
            try MountedDirectory.with(prepare: { try Script(prepare).run($0) }) { mount in
                let truce = try Lab.variable("TRUCE_BINARY")
                try Script(
                    "cd \"$1\" && exec \"$2\" run --name agent -- sh -c 'echo new >drafts/a.md; echo >drafts/b.md'"
                )
                .run(mount.path, truce)
                _ = try Self.log(mount.path + "/drafts/b.md", until: "created by")
                // The other files have the size and the times of those that the run has written.
                let swap = """
                    cd "$1" && echo own >other/a.md && touch -r drafts/a.md other/a.md && echo >other/b.md
                    touch -r drafts/b.md other/b.md && mv drafts gone && ln -s other drafts
                    """
                try Script(swap).run(mount.below)
                let undo = try TruceCommand.attempt("undo", "--by", "agent", "--created", mount.path)
                #expect(undo.ending == .exited(1))
                for name in ["a.md", "b.md"] {
                    let line = undo.text.split(separator: "\n").first {
                        $0.hasPrefix("drafts/\(name): stays: ")
                    }
                    #expect(line?.contains("symbolic link") ?? false, "\(undo.text)\(undo.errorText)")
                }
                #expect(try FileContents.text(of: mount.below + "/other/a.md") == "own\n")
                #expect(FileContents.ofFile(mount.below + "/other/b.md") != nil)
            }
        }

        @Test(
            "'truce undo' takes back the saves of vim, sed and git in a run, and leaves git's own files alone"
        )
        func undoTakesBackRealPrograms() throws {
            let environment = ["AUTHOR", "COMMITTER"].map { "GIT_\($0)_NAME=a GIT_\($0)_EMAIL=a@b" }
            let prepare = """
                cd "$1" && git init -q
                for name in by-git by-vim by-sed by-shell; do echo old >$name.md; done
                git add . && git commit -qm old && echo new >by-git.md && git commit -qam new
                """
            try MountedDirectory.with(prepare: {
                try Script("export \(environment.joined(separator: " ")); " + prepare).run($0)
            }) { mount in
                let agent = """
                    cd "$1" && git reset -q --hard HEAD~1 && sed -i s/old/agent/ by-sed.md
                    vim -N -u NONE -es -c s/old/agent/ -c wq by-vim.md; echo agent >by-shell.md
                    git add by-sed.md && \(environment.joined(separator: " ")) git commit -qm agent
                    """
                try Script("cd \"$1\" && exec \"$2\" run --name agent -- sh -c \"$3\" sh \"$1\"").run(
                    mount.path, try Lab.variable("TRUCE_BINARY"), agent)
                _ = try Self.log(mount.path, until: "by-shell.md  written by sh")
                let head = try Program("git").run("-C", mount.path, "rev-parse", "HEAD").text
                let undo = try TruceCommand.attempt("undo", "--by", "agent", mount.path)
                #expect(undo.ending == .exited(0), "\(undo.text)\(undo.errorText)")
                #expect(undo.text.split(separator: "\n").count == 4, "\(undo.text)")
                for name in ["by-vim", "by-sed", "by-shell"] {
                    #expect(try FileContents.text(of: "\(mount.path)/\(name).md") == "old\n")
                }
                #expect(try FileContents.text(of: mount.path + "/by-git.md") == "new\n")
                #expect(try Program("git").run("-C", mount.path, "rev-parse", "HEAD").text == head)
            }
        }

        @Test("keep = \"writes\" preserves the contents before each write, up to keep-count")
        func aRulePreservesEachGeneration() throws {
            let rule = "[[paths]]\npattern = \"*.md\"\nkeep = \"writes\"\nkeep-count = 4\n"
            try MountedDirectory.with(prepare: { source in
                try FileContents.write(rule, to: source + "/.truce.toml")
                for name in ["notes.md", "other.txt"] {
                    try FileContents.write("0\n", to: "\(source)/\(name)")
                }
            }) { mount in
                let notes = mount.path + "/notes.md"
                try Script("cd \"$1\"; for n in 1 2; do echo $n >notes.md; echo $n >other.txt; done").run(
                    mount.path)
                try Program("sed").run("-i", "s/2/3/", notes)
                try Program("vim").run("-N", "-u", "NONE", "-es", "-c", "s/3/4/", "-c", "wq", notes)
                try Script("cp /dev/null \"$1\"; echo 5 >>\"$1\"; echo 6 >>\"$1\"").run(notes)
                // An open without a write makes no generation.
                try Script(": >>\"$1\"; : >>\"$1\"").run(notes)
                let versions = try TruceCommand.run("versions", notes).text.split(separator: "\n")
                let contents = try versions.map { line in
                    try TruceCommand.run("versions", notes, "show", String(line.prefix(16))).text
                }
                #expect(contents.sorted() == ["3\n", "4\n", "5\n", "5\n6\n"], "\(versions)")
                #expect(versions.allSatisfy { $0.contains("before a change by ") }, "\(versions)")
                #expect(versions.contains { $0.contains("before a change by vim") }, "\(versions)")
                #expect(try TruceCommand.run("versions", mount.path + "/other.txt").text == "")
                try Script("echo 7 >\"$1\"").run(notes)
                try Program("rm").run(notes)
                let last = try TruceCommand.run("versions", notes).text
                #expect(last.contains("before a change by rm"), "\(last)")
            }
        }

        @Test("log = \"reads\" adds the reads of some files to the history")
        func aRuleAddsReads() throws {
            let directory = try Lab.freshDirectory("configuration")
            try Program("mkdir").run(directory + "/truce")
            try FileContents.write(
                "[[paths]]\npattern = \"*.md\"\nlog = \"reads\"\n", to: directory + "/truce/truce.toml")
            try MountedDirectory.with(environment: ["XDG_CONFIG_HOME": directory]) { source in
                for name in ["a.md", "a.txt"] { try FileContents.write("a\n", to: "\(source)/\(name)") }
            } body: { mount in
                try Program("cat").run(mount.path + "/a.txt", mount.path + "/a.md")
                let lines = try Self.log(mount.path, until: "read by cat")
                #expect(lines.count == 1 && lines[0].hasPrefix("a.md  "), "\(lines)")
            }
        }

        @Test("A save over contents that the program has not read is in the history, with both programs")
        func savesOverUnreadContentsAreInTheHistory() throws {
            try MountedDirectory.with(prepare: { try FileContents.write("one\ntwo\n", to: $0 + "/a.md") }) {
                mount in
                let (document, program) = (mount.path + "/a.md", try ScriptedProcess())
                try program.must("read", document)
                try Program("sed").run("-i", "s/two/another/", document)
                try program.must("put", document, "mine")
                let lines = try Self.log(document, until: "saved over by")
                let line = try #require(lines.first { $0.contains("saved over by") })
                #expect(line.contains("which had not read what "), "\(line)")
                let version = try #require(line.split(separator: " ").last)
                let text = try TruceCommand.run("versions", document, "show", String(version)).text
                #expect(text == "one\nanother\n")
            }
        }

        @Test(
            "Two runs with one name are told apart, also after a new mount: undo takes back the last one only"
        )
        func undoTakesBackTheLastRunOnly() throws {
            try MountedDirectory.with(prepare: { try FileContents.write("0\n", to: $0 + "/a.md") }) { mount in
                let document = mount.path + "/a.md"
                let truce = try Lab.variable("TRUCE_BINARY")
                for text in ["1", "2"] {
                    let script = "cd \"$1\" && exec \"$2\" run --name agent -- sh -c \"echo $3 >a.md\""
                    try Script(script).run(mount.path, truce, text)
                    let writes = "grep -c 'k=written.*z=' \"$1\"/.truce/store/history/events.log || :"
                    try eventually(within: .seconds(10), "the write by run \(text) in the history") {
                        try Script(writes).run(mount.below).text == "\(text)\n"
                    }
                    guard text == "1" else { break }
                    try mount.unmount()
                    try mount.mount()
                }
                try TruceCommand.run("undo", "--by", "agent", mount.path)
                #expect(try FileContents.text(of: document) == "1\n")
            }
        }

        @Test("The history says that a command with --uncoordinated passed all waits")
        func uncoordinatedStepsAreMarked() throws {
            try MountedDirectory.with { mount in
                try Script("cd \"$1\"; exec \"$2\" run --uncoordinated --name hurry -- touch a.md").run(
                    mount.path, try Lab.variable("TRUCE_BINARY"))
                let lines = try Self.log(mount.path + "/a.md", until: "run 'hurry'")
                #expect(lines.allSatisfy { $0.hasSuffix("run 'hurry', which passes all waits") }, "\(lines)")
            }
        }

        @Test("A user sees only events of documents that the user may read")
        func aUserSeesOnlyReadableDocuments() throws {
            guard geteuid() == 0 else {
                return print("only root mounts for other users: shown by root's run")
            }
            try MountedDirectory.with("allow_other") { mount in
                try Script("umask 022; echo a >\"$1\"/open.md; umask 077; echo b >\"$1\"/closed.md").run(
                    mount.path)
                _ = try Self.log(mount.path, until: "closed.md")
                let renaming = """
                    umask 022; cd "$1"; mkdir -m 700 private; echo c >private/secret.md; echo d >moved.md
                    mv private/secret.md moved.md; echo moved
                    """
                try Script(renaming).run(mount.path)
                _ = try Self.log(mount.path + "/moved.md", until: "which renamed private/secret.md")
                // The name stays a secret when its directory is gone.
                try Program("rmdir").run(mount.path + "/private")
                let text = try Script("exec setpriv --reuid 12345 --clear-groups --regid 12345 \"$@\"")
                    .run(try Lab.variable("TRUCE_BINARY"), "log", mount.path).text
                #expect(text.contains("open.md"))
                #expect(!text.contains("closed.md"))
                // Its document may be read, but the name of the file that was renamed over it is a secret.
                #expect(text.contains("moved.md  written by mv") && !text.contains("secret"), "\(text)")
            }
        }
    }
}
