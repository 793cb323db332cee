// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// Tests with a real editor. Unmodified programs make Neovim save, and Neovim gets messages about their changes.
    @Suite struct NeovimTests {
        private static let saved = "saved;once"

        private static func writeNotes(in directory: String) throws {
            try FileContents.write("saved\nonce\n", to: directory + "/notes.md")
        }

        @Test(
            "cat and grep print the text that is unsaved in Neovim", arguments: ["auto", "yes", "no"])
        func catAndGrepReadUnsavedText(backupcopy: String) throws {
            try MountedDirectory.with("ask-again=0ms", prepare: Self.writeNotes) { mount in
                let editor = try Editor("notes.md", of: mount, backupcopy: backupcopy)
                try editor.type("unsaved;words")
                #expect(try FileContents.text(of: mount.below + "/notes.md") == "saved\nonce\n")
                #expect(try Program("cat").run(mount.path + "/notes.md").text == "unsaved\nwords\n")
                #expect(try !editor.isModified)

                try editor.type("needle;in hay")
                #expect(try FileContents.text(of: mount.below + "/notes.md") == "unsaved\nwords\n")
                #expect(
                    try Program("grep").run("-r", "needle", mount.path).text.hasSuffix("notes.md:needle\n"))
                #expect(try editor.messages.contains("cat"))
                checkForcedSteps(try mount.status())
                try editor.end()
            }
        }

        @Test(
            "git commits the text that is unsaved in Neovim, also after a stat of the file",
            arguments: ["yes", "no"])
        func gitCommitsUnsavedText(backupcopy: String) throws {
            try MountedDirectory.with("ask-again=0ms", prepare: Self.writeNotes) { mount in
                try Script("git init -q; git config user.name t; git config user.email t@example.com").run(
                    at: mount.path)
                let editor = try Editor("notes.md", of: mount, backupcopy: backupcopy)
                #expect(try Self.commit("one;line;more", by: editor) == "one\nline\nmore\n")
                #expect(try Self.commit("1", by: editor) == "1\n")
                #expect(try !editor.isModified)
                // After the undo of its last change, the buffer has no unsaved text.
                try editor.type("other")
                try Editor.waitUntilUnsaved("notes.md", in: mount)
                _ = try editor.value(of: "execute('undo')")
                try eventually(within: .seconds(10), "the end of what is unsaved") {
                    try !TruceCommand.run("ps", mount.path).text.contains("unsaved")
                }
                checkForcedSteps(try mount.status())
                try editor.end()
            }
        }

        /// Commits with git while the editor has unsaved text. Returns the committed contents.
        private static func commit(_ text: String, by editor: Editor) throws -> String {
            try editor.type(text)
            try Editor.waitUntilUnsaved("notes.md", in: editor.mount)
            return try Script("git add notes.md; git commit -qm x; git show HEAD:notes.md").run(
                at: editor.mount.path
            ).text
        }

        @Test("Neovim gets the changes of a program that goes on writing, and answers its user meanwhile")
        func neovimGetsAnOngoingWritersChanges() throws {
            try MountedDirectory.with("wait=120s,hold=60s,idle=60s", prepare: Self.writeNotes) { mount in
                let (editor, writer) = (try Editor("notes.md", of: mount), try ScriptedProcess())
                try writer.must("open", "w", mount.path + "/notes.md", "O_WRONLY")
                try writer.must("write", "w", "fresh")
                try mount.waitUntilParked(editor.program.pid, within: .seconds(11))
                let (text, took) = try timed { try editor.text }
                print("Neovim answered after \(took.milliseconds) ms while it waited for a writer")
                #expect(text == Self.saved)
                #expect(took < .seconds(11))
                try writer.must("close", "w")
                try eventually(within: .seconds(10), "what was written, and the end of the turn") {
                    try editor.text == "fresh;once" && editor.isWritable
                }
                checkForcedSteps(try mount.status())
                try editor.end()
            }
        }

        @Test("Neovim is asked before rm deletes a file with unsaved text, and keeps and marks the text")
        func neovimKeepsAndMarksTheUnsavedTextOfAFileThatRmDeletes() throws {
            try MountedDirectory.with(prepare: Self.writeNotes) { mount in
                let editor = try Editor("notes.md", of: mount)
                try editor.type("only;here")
                try Program("rm").run(mount.path + "/notes.md")
                try eventually(within: .seconds(10), "the buffer to be marked") {
                    try editor.state == "deleted"
                }
                #expect(try editor.text == "only;here")
                #expect(try editor.isModified)
                let journal = try mount.status().journal
                let agreed = journal.first {
                    $0.step == "answered" && $0.detail == "accommodateDeletion: done"
                }
                let unlinked = journal.first { $0.step == "unlinked" && $0.path == "notes.md" }
                #expect(try #require(agreed).sequence < (try #require(unlinked).sequence))
                try eventually(within: .seconds(10), "Neovim to be let in again") { try editor.isWritable }
                // After a write, Neovim presents the buffer again.
                _ = try editor.value(of: "execute('write')")
                #expect(try Program("cat").run(mount.path + "/notes.md").text == "only\nhere\n")
                checkForcedSteps(try mount.status())
                try editor.end()
            }
        }

        @Test("Neovim closes the buffer of a file without unsaved text that rm deletes")
        func neovimClosesTheBufferOfASavedFileThatRmDeletes() throws {
            try MountedDirectory.with(prepare: Self.writeNotes) { mount in
                let editor = try Editor("notes.md", of: mount)
                try Program("rm").run(mount.path + "/notes.md")
                try eventually(within: .seconds(10), "the buffer to be closed") { try !editor.isLoaded }
                checkForcedSteps(try mount.status())
                try editor.end()
            }
        }

        @Test("Neovim renames its buffer when its file, or the directory above, is moved")
        func neovimRenamesItsBufferWhenItsFileIsMoved() throws {
            try MountedDirectory.with(
                prepare: { try Script("mkdir \"$1/plans\"; echo saved > \"$1/plans/notes.md\"").run($0) }
            ) { mount in
                let editor = try Editor("plans/notes.md", of: mount)
                try editor.type("unsaved;words")
                try Program("mv").run(mount.path + "/plans/notes.md", mount.path + "/plans/ideas.md")
                try eventually(within: .seconds(10), "the buffer's new name") {
                    try editor.name.hasSuffix("plans/ideas.md")
                }
                #expect(try editor.text == "unsaved;words")
                try Program("mv").run(mount.path + "/plans", mount.path + "/later")
                try eventually(within: .seconds(10), "the new name of the directory") {
                    try editor.name.hasSuffix("later/ideas.md")
                }
                #expect(try Program("cat").run(mount.path + "/later/ideas.md").text == "unsaved\nwords\n")
                checkForcedSteps(try mount.status())
                try editor.end()
            }
        }

        enum Saver: String, CaseIterable, Sendable {
            case sed, vim, emacs, rsync

            /// Saves the text `changed` and a line with the saver's name to the file, by the steps that are usual for this
            /// saver.
            func save(_ file: String, elsewhere: String) throws {
                switch self {
                case .sed: try Program("sed").run("-i", "-e", "1s/.*/changed/", "-e", "2s/.*/by sed/", file)
                case .vim:
                    try Program("vim").run(
                        "-Nu", "NONE", "-es", "-c", "%s/saved/changed/", "-c", "2s/.*/by vim/", "-c", "wq",
                        file)
                case .emacs:
                    try Program("emacs").run(
                        "-Q", "--batch", "--eval",
                        """
                        (progn (find-file "\(file)") (erase-buffer) (insert "changed\\nby emacs\\n")
                               (save-buffer))
                        """)
                case .rsync:
                    try FileContents.write("changed\nby rsync\n", to: elsewhere + "/notes.md")
                    try Program("rsync").run(elsewhere + "/notes.md", file)
                }
            }
        }

        @Test(
            "When another program saves the file, Neovim shows the new text after a single change event",
            arguments: Saver.allCases)
        func neovimReloadsOnceAfterAnotherProgramsSave(saver: Saver) throws {
            let elsewhere = try Lab.freshDirectory("elsewhere")
            try MountedDirectory.with("ask-again=0ms", prepare: Self.writeNotes) { mount in
                let editor = try Editor("notes.md", of: mount)
                #expect(try editor.text == Self.saved)
                let before = try mount.status().lastStep
                try saver.save(mount.path + "/notes.md", elsewhere: elsewhere)
                try eventually(within: .seconds(10), "the new text, by \(saver)") {
                    try editor.text == "changed;by \(saver)"
                }
                try eventually(within: .seconds(10), "Neovim to be let in again") { try editor.isWritable }
                let status = try mount.status()
                let heard = PresenterExchange(status, with: editor.pid, since: before).aboutWriters()
                #expect(
                    heard == ["relinquishToWriter", "didChange", "reacquire"],
                    "\(saver): \(heard)\n\(status.journalText())")
                checkForcedSteps(status)
                try editor.end()
            }
        }

        @Test("After another program appends to a file with unsaved text, the file contains both texts")
        func anotherProgramsAppendIsMergedWithUnsavedTextInNeovim() throws {
            try MountedDirectory.with(prepare: Self.writeNotes) { mount in
                let editor = try Editor("notes.md", of: mount)
                try editor.type("unsaved;words")
                try Script("echo appended >> \"$1\"").run(mount.path + "/notes.md")
                #expect(try Program("cat").run(mount.path + "/notes.md").text == "unsaved\nwords\nappended\n")
                try eventually(within: .seconds(10), "the appended line") {
                    try editor.text == "unsaved;words;appended"
                }
                checkForcedSteps(try mount.status())
                try editor.end()
            }
        }

        @Test(
            "After another program overwrites a file with unsaved text, Neovim marks a conflict and both texts remain"
        )
        func aConflictInNeovimDiscardsNeitherText() throws {
            try MountedDirectory.with(prepare: Self.writeNotes) { mount in
                let editor = try Editor("notes.md", of: mount)
                try editor.type("unsaved;words")
                try FileContents.write("another program's\n", to: elsewhereName(mount))
                // A write that truncates the file asks the presenter to relinquish, but not to save. So the user must merge the
                // unsaved text.
                try Script("cat \"$2\" > \"$1\"").run(mount.path + "/notes.md", elsewhereName(mount))
                try eventually(within: .seconds(10), "the conflict to be marked") {
                    try editor.state == "conflict"
                }
                #expect(try editor.text == "unsaved;words")
                #expect(try Program("cat").run(mount.path + "/notes.md").text == "another program's\n")
                #expect(try editor.messages.contains("unsaved text"))
                try editor.end()
            }
        }

        private func elsewhereName(_ mount: MountedDirectory) -> String { mount.path + "/other" }

        @Test("`less` that shows the middle of a file does not keep Neovim's buffer of the file read-only")
        func aPagerDoesNotKeepNeovimReadOnly() throws {
            let long = (1...5_000).map { "line \($0)\n" }.joined()
            try MountedDirectory.with(prepare: { try FileContents.write(long, to: $0 + "/notes.md") }) {
                mount in
                let editor = try Editor("notes.md", of: mount)
                let less = try Program("script").start(
                    "--quiet", "--return", "--command", "less '\(mount.path)/notes.md'", "/dev/null",
                    with: ["TERM": "xterm"], input: .keyboard)
                let took = try timed {
                    try eventually(within: .seconds(20), "less to show the file: \(less.text.suffix(200))") {
                        less.text.contains("line 20")
                    }
                    try eventually(within: .seconds(10), "Neovim to be writable while less has the file open")
                    {
                        try editor.isWritable
                    }
                }.took
                print("Neovim was writable \(took.milliseconds) ms after less was started")
                #expect(!less.hasEnded)
                let asked = try mount.status().journal.contains {
                    $0.detail.hasPrefix("relinquishToReader for less")
                }
                #expect(asked)
                try less.type("q")
                _ = try less.wait(within: .seconds(10))
                checkForcedSteps(try mount.status(), except: [.suspended])
                try editor.end()
            }
        }

        @Test("After the daemon is started again, the plug-in presents the file again and saves unsaved text")
        func theNeovimPluginReconnectsToARestartedDaemon() throws {
            try MountedDirectory.with("ask-again=0ms", prepare: Self.writeNotes) { mount in
                let editor = try Editor("notes.md", of: mount)
                let daemon = try mount.daemonPID
                _ = kill(daemon, SIGKILL)
                try eventually(within: .seconds(10), "the end of the daemon") {
                    !MountedDirectory.isAlive(daemon)
                }
                try mount.mount()
                try eventually(within: .seconds(20), "Neovim to present the file again") {
                    try Editor.isPresented("notes.md", by: editor.pid, in: mount)
                }
                try editor.type("unsaved;words")
                #expect(try Program("cat").run(mount.path + "/notes.md").text == "unsaved\nwords\n")
                try editor.end()
            }
        }
    }
}
