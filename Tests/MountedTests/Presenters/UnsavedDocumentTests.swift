// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// Checks programs that read the size or times of a document with unsaved text, and then use the document.
    @Suite struct UnsavedDocumentTests {
        enum Method: String, CaseIterable, Sendable {
            case inPlace = "in-place"
            case renameOver = "rename-over"
            case renameAside = "rename-aside"
        }

        enum Length: String, CaseIterable, Sendable {
            case longer, shorter

            var text: String { self == .longer ? "one\ntwo\nthree\nfour\n" : "1\n" }
            var typed: String { text.replacing("\n", with: "\\n") }
        }

        /// How a program uses `doc` in the current directory. The program prints the contents that it found.
        enum DocumentUse: String, CaseIterable, Sendable {
            case status, add, commit, stash, make, cpio, tar, list, read, mapping

            var script: Script {
                switch self {
                case .status: Script("git status --porcelain")
                case .add: Script("git add doc; git show :doc")
                case .commit: Script("git commit -qam more; git show HEAD:doc")
                case .stash: Script("git stash -q; git show 'stash@{0}:doc'")
                case .make: Script("make -s out; cat out")
                case .cpio: Script("echo doc | cpio -o --quiet | cpio -i --quiet --to-stdout doc")
                case .tar: Script("tar cf - doc | tar xOf - doc")
                case .list: Script("ls -l doc | { read -r _ _ _ _ size _; echo \"$size\"; }")
                case .read:
                    Script(
                        """
                        python3 -c 'import os
                        size = os.stat("doc").st_size
                        os.write(1, os.read(os.open("doc", os.O_RDONLY), size))'
                        """)
                case .mapping:
                    Script(
                        """
                        python3 -c 'import mmap, os
                        size = os.stat("doc").st_size
                        os.write(1, mmap.mmap(os.open("doc", os.O_RDONLY), size, prot=mmap.PROT_READ)[:])'
                        """)
                }
            }

            func expected(_ text: String) -> String {
                switch self {
                case .status: " M doc\n"
                case .list: "\(text.utf8.count)\n"
                default: text
                }
            }

            static let documents = allCases.map { "\($0.rawValue)/doc" }
        }

        static let saved = "one\ntwo\n"

        /// Makes a directory for each case of `DocumentUse`, with a repository and a makefile.
        private static func prepare(_ directory: String) throws {
            let script = Script(
                """
                cd "$1"; shift
                export GIT_AUTHOR_DATE='2020-01-01 00:00:00 +0000' GIT_COMMITTER_DATE='2020-01-01 00:00:00 +0000'
                for way; do
                    mkdir "$way"
                    printf 'one\\ntwo\\n' >"$way/doc"
                    touch -d '2020-01-01' "$way/doc"
                done
                printf 'out: doc\\n\\tcp doc out\\n' >make/Makefile
                cp make/doc make/out
                git init -q status
                cd status
                git config user.name test; git config user.email test@example.com
                git add doc; git commit -qm first; cd ..
                for way in add commit stash; do cp -a status/.git "$way"; git -C "$way" status --porcelain; done
                """
            )
            try script.attempt(arguments: [directory] + DocumentUse.allCases.map(\.rawValue)).requireSuccess()
        }

        static func present(
            _ files: [String], _ method: Method = .inPlace, in mount: MountedDirectory
        ) throws -> RunningProgram {
            let presenter = try Script("exec python3 \"$@\"").start(
                arguments: [
                    Checkout.path("Tests/Workers/unsaved-text"), try mount.socket(), mount.path,
                    method.rawValue,
                ] + files,
                input: .keyboard)
            try eventually(within: .seconds(20), "the presenter: \(presenter.errorText)") {
                presenter.text.hasPrefix("presenting\n")
            }
            return presenter
        }

        /// Sends a command to the presenter, and waits for its answer.
        @discardableResult
        static func tell(
            _ presenter: RunningProgram, _ command: String, _ answer: String
        ) throws -> String {
            let before = presenter.text.count
            try presenter.type(command + "\n")
            var line = ""
            try eventually(within: .seconds(20), "'\(answer)' after '\(command)': \(presenter.errorText)") {
                line =
                    presenter.text.dropFirst(before).split(separator: "\n").map(String.init).first {
                        $0.hasPrefix(answer)
                    } ?? ""
                return !line.isEmpty
            }
            return line
        }

        static func size(of path: String) throws -> String {
            try Program("stat").run("-c", "%s", path, within: .seconds(20)).text
        }

        /// Lets a program use a document with unsaved text. Returns the contents that the program found, and its output.
        private static func use(
            _ way: DocumentUse, _ length: Length, of presenter: RunningProgram, in mount: MountedDirectory
        ) throws -> String {
            try tell(presenter, "type \(way.rawValue)/doc \(length.typed)", "typed")
            let outcome = try way.script.attempt(at: "\(mount.path)/\(way.rawValue)", within: .seconds(20))
            return outcome.text + outcome.errorText
        }

        @Test(
            "Programs that call stat before they read get all of the unsaved text",
            arguments: [
                (Method.inPlace, Length.longer), (.inPlace, .shorter), (.renameOver, .longer),
                (.renameAside, .shorter),
            ])
        func statThenReadSeesUnsavedText(method: Method, length: Length) throws {
            try MountedDirectory.with("ask-again=0ms", "ask-again-stat=0ms", prepare: Self.prepare) { mount in
                let presenter = try Self.present(DocumentUse.documents, method, in: mount)
                for way in DocumentUse.allCases {
                    let found = try Self.use(way, length, of: presenter, in: mount)
                    #expect(found == way.expected(length.text), "\(way)")
                }
                try presenter.end()
                try mount.checkDataPath()
                checkForcedSteps(try mount.status())
            }
        }

        @Test("ls -l of 50 documents with unsaved text in a hung editor takes about a second")
        func statOfDocumentsInAHungEditorReturnsAfterASecond() throws {
            let files = (1...50).map { "doc-\($0)" }
            try MountedDirectory.with(
                prepare: { below in
                    for file in files { try FileContents.write(Self.saved, to: "\(below)/\(file)") }
                }
            ) { mount in
                let presenter = try Self.present(files, in: mount)
                for file in files { try Self.tell(presenter, "type \(file) new", "typed") }
                presenter.send(SIGSTOP)
                let (outcome, took) = try timed {
                    try Program("ls").run("-l", mount.path, within: .seconds(12))
                }
                print(
                    "ls -l of 50 unsaved documents of a hung editor took \(took.milliseconds) ms (bound 1000 ms)"
                )
                #expect(took < .seconds(11))
                #expect(took >= .seconds(1), "it did not ask")
                #expect(outcome.text.contains("doc-50"))
                #expect(try mount.counters.asked == 1)
                presenter.send(SIGCONT)
                try presenter.end()
            }
        }

        @Test("A signal ends a stat's wait for a hung editor at once", arguments: [SIGKILL, SIGINT])
        func aSignalEndsTheStatThatWaitsForAHungEditor(signal: Int32) throws {
            try MountedDirectory.with("ask-again-stat=0ms", prepare: Self.writeDocument) { mount in
                let presenter = try Self.present(["doc"], in: mount)
                try Self.tell(presenter, "type doc new", "typed")
                presenter.send(SIGSTOP)
                // On a slow machine, the wait of `stat` may end before the signal arrives, so the test tries again.
                var outcome: ProgramResult?
                for _ in 1...10 where try mount.counters.interrupted == 0 {
                    let before = try mount.counters.asked
                    let looker = try Program("stat").start(mount.path + "/doc")
                    try eventually(within: .seconds(20), "the presenter to be asked") {
                        try looker.hasEnded || mount.counters.asked > before
                    }
                    looker.send(signal)
                    outcome = try looker.wait(within: .seconds(12))
                }
                #expect(outcome?.ending == .signalled(signal))
                #expect(try mount.counters.interrupted == 1)
                presenter.send(SIGCONT)
                try presenter.end()
            }
        }

        @Test("A presenter that reports no unsaved text is not asked by stat, but by an open")
        func aPresenterThatReportsNothingIsNotAskedByStat() throws {
            try MountedDirectory.with("ask-again=0ms", "ask-again-stat=0ms", prepare: Self.writeDocument) {
                mount in
                let presenter = try Self.present(["doc"], in: mount)
                try Self.tell(presenter, "keep doc unsaved", "typed")
                #expect(try Self.size(of: mount.path + "/doc") == "\(Self.saved.utf8.count)\n")
                #expect(try mount.counters.asked == 0)
                #expect(try Program("cat").run(mount.path + "/doc").text == "unsaved")
                try presenter.end()
            }
        }

        /// Ways to use the document. None of them reads, by the document's path, an attribute that a save changes.
        enum Other: String, CaseIterable, Sendable {
            case access, handle, empty, list, mode, filesystem

            /// The Python code that uses the document in this way. The document is the file `doc` in the current directory.
            var code: String {
                switch self {
                case .access: "os.access('doc', os.R_OK)"
                case .handle: "os.fstat(os.open('doc', os.O_PATH))"
                case .empty: "statx(os.open('doc', os.O_PATH), b'', 0x1000, 0x7ff)"
                case .list: "os.listdir('.')"
                case .mode: "statx(-100, b'doc', 0, 0x2)"
                case .filesystem: "os.statvfs('doc')"
                }
            }
        }

        private static let prelude = """
            import ctypes, os
            libc = ctypes.CDLL(None)
            def statx(*arguments): assert libc.statx(*arguments, ctypes.create_string_buffer(256)) == 0

            """

        @Test(
            "No save is caused by other calls than stat, by the presenter's own stat, or by a background program's stat"
        )
        func callsOtherThanStatAskForNoSave() throws {
            try MountedDirectory.with("ask-again=0ms", "ask-again-stat=0ms", prepare: Self.writeDocument) {
                mount in
                let presenter = try Self.present(["doc"], in: mount)
                try Self.tell(presenter, "type doc unsaved", "typed")
                for other in Other.allCases {
                    try Program("python3").run("-c", Self.prelude + other.code, at: mount.path)
                    let asked = try mount.counters.asked
                    #expect(asked == 0, "\(other)")
                }
                let size = Self.saved.utf8.count
                #expect(try Self.tell(presenter, "look doc", "looked") == "looked \(size)")
                #expect(try mount.counters.asked == 0)
                let elsewhere = try Lab.freshDirectory("elsewhere")
                try Script("cp \"$(command -v stat)\" \"$1/restic\"; \"$1/restic\" \"$2/doc\"").run(
                    elsewhere, mount.path)
                #expect(try mount.counters.asked == 0, "a background program")
                // The same call with the document's path makes the presenter save.
                try Program("python3").run(
                    "-c", Self.prelude + "statx(-100, b'doc', 0, 0x200)", at: mount.path)
                #expect(try mount.counters.asked > 0)
                #expect(try FileContents.text(of: mount.below + "/doc") == "unsaved")
                try presenter.end()
            }
        }

        @Test("The stat of a program that has the document open asks for no save")
        func statByAnOpenHandleAsksForNoSave() throws {
            try MountedDirectory.with("ask-again=0ms", "ask-again-stat=0ms", prepare: Self.writeDocument) {
                mount in
                let reader = try Script(
                    """
                    exec python3 -uc 'import os, sys
                    file = open("doc"); print("open"); sys.stdin.readline()
                    print(os.stat("doc").st_size, os.fstat(file.fileno()).st_size, file.seek(0, os.SEEK_END))'
                    """
                ).start(at: mount.path, input: .keyboard)
                try eventually(within: .seconds(20), "the open") { reader.text == "open\n" }
                // The presenter registers after the open, so that the open asked no presenter.
                let presenter = try Self.present(["doc"], in: mount)
                try Self.tell(presenter, "type doc unsaved", "typed")
                try reader.type("\n")
                let size = Self.saved.utf8.count
                #expect(
                    try reader.wait(within: .seconds(20)).text == "open\n\(size) \(size) \(size)\n")
                #expect(try mount.counters.asked == 0)
                try presenter.end()
            }
        }

        @Test(
            "If a command that only calls stat is repeated, only its first run causes a save; later runs get old contents"
        )
        func aRepeatedStatAsksForOneSave() throws {
            try MountedDirectory.with("ask-again=0ms", "ask-again-stat=600s", prepare: Self.writeDocument) {
                mount in
                let presenter = try Self.present(["doc"], in: mount)
                let doc = mount.path + "/doc"
                let read = Script(
                    """
                    cd "$1"; exec python3 -c 'import os, sys
                    size = os.stat("doc").st_size
                    if "read" in sys.stdin.readline(): os.write(1, os.read(os.open("doc", os.O_RDONLY), size))'
                    """)
                try Self.tell(presenter, "type doc first", "typed")
                #expect(try Self.size(of: doc) == "5\n")
                try read.run(mount.path)
                try Self.tell(presenter, "type doc second-one", "typed")
                #expect(try Self.size(of: doc) == "5\n")
                // In its former run this program opened no document, so its stat does not make the presenter save in this run.
                try read.run(mount.path)
                #expect(try Self.size(of: doc) == "10\n")
                try Self.tell(presenter, "type doc third-and-longest", "typed")
                // The program must not read a mixture of old and new text.
                #expect(try read.run(mount.path, input: .text("read\n")).text == "second-one")
                // The program opened the document in its last run, so its stat makes the presenter save again.
                #expect(try read.run(mount.path, input: .text("read\n")).text == "third-and-longest")
                try Self.tell(presenter, "type doc fourth", "typed")
                #expect(try Program("cat").run(doc).text == "fourth")
                try presenter.end()
                checkForcedSteps(try mount.status())
            }
        }

        /// How a program reads the attributes of `doc` and then destroys the contents of `doc` without reading them.
        enum Loss: String, CaseIterable, Sendable {
            case removed, overwritten, cut, replaced

            var script: Script {
                switch self {
                case .removed: Script("rm doc")
                case .overwritten:
                    Script("exec python3 -c 'import os; os.stat(\"doc\"); open(\"doc\", \"w\")'")
                case .cut:
                    Script("exec python3 -c 'import os; os.stat(\"doc\"); os.truncate(\"doc\", 0)'")
                case .replaced:
                    Script(
                        """
                        echo other >other
                        exec python3 -c 'import os; os.stat("doc"); os.replace("other", "doc")'
                        """)
                }
            }
        }

        @Test(
            "Contents that were saved for a stat are preserved if the same program then destroys them",
            arguments: Loss.allCases)
        func contentSavedForStatIsPreserved(loss: Loss) throws {
            try MountedDirectory.with("ask-again=0ms", "ask-again-stat=0ms", prepare: Self.writeDocument) {
                mount in
                let presenter = try Self.present(["doc"], in: mount)
                try Self.tell(presenter, "type doc unsaved-text", "typed")
                try loss.script.run(at: mount.path)
                let version = try #require(try mount.kept("doc").last)
                let restored = try Lab.freshDirectory("restored") + "/doc"
                try mount.restore(version.id, to: restored)
                #expect(try FileContents.text(of: restored) == "unsaved-text")
                try presenter.end()
            }
        }

        @Test("While a document has unsaved text, the kernel does not cache its size")
        func attributesAreNotCachedWhileTextIsUnsaved() throws {
            try MountedDirectory.with("ask-again=0ms", "ask-again-stat=0ms", prepare: Self.writeDocument) {
                mount in
                let doc = mount.path + "/doc"
                let presenter = try Self.present(["doc"], in: mount)
                // The kernel now caches the size for an hour.
                #expect(try Self.size(of: doc) == "\(Self.saved.utf8.count)\n")
                for text in ["a", "bc", "def"] {
                    try Self.tell(presenter, "type doc \(text)", "typed")
                    let size = try Self.size(of: doc)
                    #expect(size == "\(text.utf8.count)\n")
                }
                try presenter.end()
            }
        }

        @Test(
            "`truce present --unsaved` saves its file for programs that call stat, and `ps` shows the unsaved text"
        )
        func trucePresentUnsavedSavesForStat() throws {
            let stage = try Lab.freshDirectory("stage")
            try MountedDirectory.with("ask-again=0ms", "ask-again-stat=0ms", prepare: Self.writeDocument) {
                mount in
                let presenter = try TruceCommand.start(
                    "present", mount.path + "/doc", "--unsaved", "[ -e '\(stage)/draft' ]", "--on-save",
                    "mv '\(stage)/draft' '\(stage)/saved' && cat '\(stage)/saved' >\"$TRUCE_PATH\"")
                try FileContents.write("a draft of some length\n", to: stage + "/draft")
                try eventually(within: .seconds(20), "the unsaved draft: \(presenter.errorText)") {
                    try TruceCommand.run("ps", mount.path).text.contains("presents (unsaved)")
                }
                #expect(try Self.size(of: mount.path + "/doc") == "23\n")
                #expect(try !TruceCommand.run("ps", mount.path).text.contains("unsaved"))
                try presenter.end()
                checkForcedSteps(try mount.status())
            }
        }

        private static func writeDocument(in directory: String) throws {
            try FileContents.write(saved, to: directory + "/doc")
        }
    }
}
