// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

/// Overwrites by which nothing is lost leave no version: the program has read the contents, or writes independently of them, or
/// its contents have everything of the replaced ones.
extension MountTests {
    @Suite struct SeenOverwriteTests {
        @Test(
            "A program that reads again before it saves has seen the contents",
            arguments: UnseenOverwriteTests.ways.filter { $0 != "size" })
        func aProgramThatReadsAgainHasSeenTheContents(way: String) throws {
            try Self.harmless(suspected: 0) { document, program, other in
                try program.must("read", document)
                try other.must("put", document, "by another")
                try program.must("read", document)
                try UnseenOverwriteTests.save(way, document, by: program)
                // What it has written itself, it has seen as well.
                try UnseenOverwriteTests.save(way, document, by: program)
            }
        }

        @Test("A program that reads and writes by one handle has seen what it replaces")
        func aReaderAndWriterHasSeenTheContents() throws {
            let increment = """
                import sys
                for line in sys.stdin:
                    with open(sys.argv[1], "r+") as file:
                        number = int(file.read())
                        file.seek(0)
                        file.write(str(number + 1))
                        file.truncate()
                    print("done", flush=True)
                """
            try Self.harmless(suspected: 0) { document, _, other in
                try other.must("put", document, "0")
                let programs = try (0..<2).map { _ in
                    try Program("python3").start("-c", increment, document, input: .keyboard)
                }
                for round in 1...10 {
                    for program in programs {
                        try program.type("\n")
                        try eventually(within: .seconds(20), "round \(round)") {
                            program.text == String(repeating: "done\n", count: round)
                        }
                    }
                }
                #expect(try other.must("read", document) == "20")
                for program in programs { try program.end() }
            }
        }

        @Test("A save that has the other program's changes is harmless")
        func aSaveWithTheOthersChangesIsHarmless() throws {
            try Self.harmless(suspected: 3) { document, program, other in
                for number in 0..<3 {
                    try program.must("read", document)
                    try other.must("put", document, "by another \(number)")
                    try program.must("put", document, "by another \(number), and by me")
                    try program.must("unlink", document)
                    try other.must("put", document, "old \(number)")
                }
            }
        }

        @Test("A program that rewrites the same contents makes no later save a loss")
        func equalContentsAreHarmless() throws {
            try Self.harmless(suspected: 1) { document, program, other in
                try program.must("read", document)
                try other.must("put", document, "old")
                try program.must("put", document, "new")
            }
        }

        @Test("Programs that only append, or write without reading, suspect nothing")
        func appendersAndStrangersSuspectNothing() throws {
            try Self.harmless(suspected: 0) { document, program, other in
                for number in 0..<5 {
                    try program.must("read", document)
                    try other.must("open", "d", document, "O_WRONLY|O_APPEND")
                    try other.must("write", "d", "line \(number)")
                    try other.must("close", "d")
                    try program.must("read", document)
                }
                for number in 0..<5 {
                    try Script("date >\"$1\"; echo $2 >\"$1\"").run(document, "\(number)")
                    try Program("cp").run("/etc/passwd", document)
                    try Program("tee").run(document, input: .text("\(number)\n"))
                }
            }
        }

        @Test("git, make, sed, jq, rsync and other programs save over each other's results without an alarm")
        func programsSaveOverEachOthersResults() throws {
            let prepare = { (source: String) in
                _ = try Script(
                    "printf '%s\\n' '{\"a\": 1}' >\"$1/document\"; cp \"$1/document\" \"$1/other\""
                ).run(source)
            }
            try MountedDirectory.with(prepare: prepare) { mount in
                // Two terminals of different sessions run the same commands in turn.
                let terminals = try (0..<2).map { _ in
                    try Program("setsid").start("bash", "-c", Self.terminal, at: mount.path, input: .keyboard)
                }
                let commands = [
                    "cat document >/dev/null",
                    "git init -q . 2>/dev/null; git add document; git commit -qm $RANDOM",
                    "sed -i 's/1/2/' document", "git stash -q", "git stash pop -q",
                    "jq '.a += 1' document >new; mv new document",
                    "python3 -c 'import json; d = json.load(open(\"document\")); d[\"b\"] = 2; json.dump(d, open(\"document\", \"w\"))'",
                    "git commit -qam $RANDOM", "sort -o document document",
                    "rsync --ignore-times other document",
                    "printf 'document: other\\n\\tcp other document\\n' >Makefile; touch other; make --silent",
                    "cp other document", "sponge document <other", "perl -pi -e 's/1/3/' document",
                    "git checkout -q -- document", "vim -Nu NONE -i NONE -n -es -c '%s/$/ /' -c wq document",
                    "tar cf all.tar document; tar xf all.tar",
                ]
                for (number, command) in (commands + commands).enumerated() {
                    let terminal = terminals[number % 2]
                    try terminal.type(command + "\n")
                    let done = number / 2 + 1
                    try eventually(within: .seconds(30), "'\(command)'") {
                        terminal.text.split(separator: "\n").count(where: { $0 == "done" }) == done
                    }
                }
                try Self.checkHarmless(in: mount, suspected: nil)
                for terminal in terminals {
                    terminal.endInput()
                    _ = try terminal.wait(within: .seconds(20))
                }
            }
        }

        private static let terminal = """
            export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@a
            while read -r line; do eval "$line" >/dev/null 2>&1; echo done; done
            """

        /// Lets two programs work on a document, and checks that no version stays.
        private static func harmless(
            suspected: UInt64, _ body: (String, ScriptedProcess, ScriptedProcess) throws -> Void
        ) throws {
            let prepare = { (source: String) in try FileContents.write("old", to: source + "/document") }
            try MountedDirectory.with(prepare: prepare) { mount in
                try body(mount.path + "/document", ScriptedProcess(), ScriptedProcess())
                try checkHarmless(in: mount, suspected: suspected)
                checkForcedSteps(try mount.status())
            }
        }

        private static func checkHarmless(in mount: MountedDirectory, suspected: UInt64?) throws {
            try eventually(within: .seconds(20), "the overwrites to be compared") {
                let counters = try mount.counters
                return counters.unseen + counters.harmless == counters.suspected
                    && counters.suspected >= suspected ?? 0
            }
            let counters = try mount.counters
            print("suspected \(counters.suspected), unseen \(counters.unseen)")
            #expect(counters.unseen == 0 && counters.suspected == suspected ?? counters.suspected)
            let journal = try mount.status().journalText
            #expect(try mount.kept().isEmpty, "\(journal)")
        }
    }
}
