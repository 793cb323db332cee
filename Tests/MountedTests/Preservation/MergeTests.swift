// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

extension MountTests {
    /// With the setting `unseen = "merge"`, a save over contents that its program has not read is merged with them.
    @Suite struct MergeTests {
        static let lines = (1...20).map { "line \($0)" }

        /// The lines of a document after changes of some of them.
        private static func text(_ changes: [Int: String] = [:]) -> String {
            lines.enumerated().map { (changes[$0.offset + 1] ?? $0.element) + "\n" }.joined()
        }

        /// The configuration of the mounting user, with the setting for Markdown files.
        private static func withMount(_ body: (MountedDirectory, _ document: String) throws -> Void) throws {
            let home = try Lab.freshDirectory("configuration")
            try Script("mkdir \"$1/truce\"").run(home)
            try FileContents.write(
                "[[paths]]\npattern = \"*.md\"\nunseen = \"merge\"\n", to: home + "/truce/truce.toml")
            let prepare = { (source: String) in try FileContents.write(text(), to: source + "/notes.md") }
            try MountedDirectory.with(environment: ["XDG_CONFIG_HOME": home], prepare: prepare) { mount in
                try body(mount, mount.path + "/notes.md")
            }
        }

        @Test(
            "A save is merged with changes that its program has not read, and so is the program's next save",
            arguments: ["truncate", "overwrite", "rename"])
        func aSaveIsMergedWithUnreadChanges(way: String) throws {
            try Self.withMount { mount, document in
                let (first, second) = (try TextAgent(), try TextAgent())
                _ = try first.read(document)
                _ = try second.read(document)
                try second.write(Self.text([2: "second"]), to: document, by: way)
                try first.write(Self.text([19: "first"]), to: document, by: way)
                let merged = Self.text([2: "second", 19: "first"])
                #expect(try Program("cat").run(document).text == merged)
                #expect(
                    Set(try mount.texts(ofVersionsOf: "notes.md")) == [
                        Self.text([2: "second"]), Self.text([19: "first"]),
                    ])
                // Each program goes on from its own text.
                try first.write(Self.text([10: "first again", 19: "first"]), to: document, by: way)
                let again = Self.text([2: "second", 10: "first again", 19: "first"])
                #expect(try Program("cat").run(document).text == again)
                try second.write(Self.text([2: "second", 5: "second again"]), to: document, by: way)
                #expect(
                    try Program("cat").run(document).text
                        == Self.text([2: "second", 5: "second again", 10: "first again", 19: "first"]))
                try first.end()
                try second.end()
                checkForcedSteps(try mount.status())
            }
        }

        @Test(
            "If changes are too close to each other, the file stays as its writer wrote it, and both texts are versions",
            arguments: ["truncate", "rename"])
        func closeChangesAreNotMerged(way: String) throws {
            try Self.withMount { mount, document in
                let (first, second) = (try TextAgent(), try TextAgent())
                for line in [10, 12] {
                    try Script("rm \"$1\"; cat >\"$1\"").run(document, input: .text(Self.text()))
                    _ = try first.read(document)
                    _ = try second.read(document)
                    let (own, others) = (Self.text([10: "first"]), Self.text([line: "second"]))
                    try second.write(others, to: document, by: way)
                    try first.write(own, to: document, by: way)
                    #expect(try FileContents.text(of: mount.below + "/notes.md") == own)
                    #expect(Set(try mount.texts(ofVersionsOf: "notes.md")).isSuperset(of: [own, others]))
                }
                #expect(try mount.counters.merged == 0)
                try first.end()
                try second.end()
                checkForcedSteps(try mount.status())
            }
        }

        @Test("Contents do not come into a file with other rights")
        func contentsDoNotComeIntoAFileWithOtherRights() throws {
            try Self.withMount { mount, document in
                let (first, second) = (try TextAgent(), try TextAgent())
                let (own, others) = (Self.text([19: "first"]), Self.text([2: "second"]))
                for mode in ["600", "666"] {
                    try Script("cat >\"$1\"; chmod \"$2\" \"$1\"").run(
                        document, mode, input: .text(Self.text()))
                    _ = try first.read(document)
                    _ = try second.read(document)
                    try second.write(others, to: document, by: "truncate")
                    // The new file of a rename has the usual mode.
                    try first.write(own, to: document, by: "rename")
                    #expect(try FileContents.text(of: mount.below + "/notes.md") == own, "\(mode)")
                    #expect(Set(try mount.texts(ofVersionsOf: "notes.md")).isSuperset(of: [own, others]))
                }
                #expect(try mount.counters.merged == 0)
                try first.end()
                try second.end()
            }
        }

        @Test("A program that saves again at once is merged again, and a presenter is told of it")
        func aSecondSaveWaitsForTheMergeOfTheFirst() throws {
            try Self.withMount { mount, document in
                let presenter = try PresenterTests.present(mount)
                let (first, second) = (try TextAgent(), try TextAgent())
                _ = try first.read(document)
                _ = try second.read(document)
                let rounds = 9
                for round in 0..<rounds {
                    let way = ["truncate", "overwrite", "rename"][round % 3]
                    try second.write(Self.text([2: "second \(round)"]), to: document, by: way)
                    // The agent does not wait between its saves.
                    try first.write(
                        Self.text([10: "first \(round)"]),
                        Self.text([10: "first \(round)", 19: "end \(round)"]), to: document, by: way)
                    let merged = Self.text([2: "second \(round)", 10: "first \(round)", 19: "end \(round)"])
                    #expect(try Program("cat").run(document).text == merged, "\(way), round \(round)")
                }
                let counters = try mount.counters
                #expect(counters.unseen == 0 && counters.merged >= rounds, "\(counters.summary)")
                try eventually(within: .seconds(10), "the presenter to be told of a merge") {
                    presenter.text.split(separator: "\n").contains {
                        $0.contains("presenter/didChange") && $0.contains("\"uncoordinated\":true")
                    }
                }
                try presenter.end()
                try first.end()
                try second.end()
                checkForcedSteps(try mount.status())
            }
        }

        @Test("If a program has a file open twice to write, its last close decides about a merge")
        func theLastCloseDecides() throws {
            let code = """
                import os, sys
                path, text = sys.argv[1], open(sys.argv[1]).read().replace("line 19", "first")
                print("ready", flush=True)
                sys.stdin.readline()
                one, other = os.open(path, os.O_WRONLY), os.open(path, os.O_WRONLY | os.O_TRUNC)
                os.write(other, text[:40].encode())
                os.close(one)
                os.write(other, text[40:].encode())
                os.close(other)
                """
            try Self.withMount { mount, document in
                let program = try Program("python3").start("-c", code, document, input: .keyboard)
                try eventually(within: .seconds(20), "the program to read") { program.text == "ready\n" }
                let second = try TextAgent()
                _ = try second.read(document)
                try second.write(Self.text([2: "second"]), to: document, by: "truncate")
                try program.type("\n")
                try program.wait(within: .seconds(20)).requireSuccess()
                #expect(try Program("cat").run(document).text == Self.text([2: "second", 19: "first"]))
                let counters = try mount.counters
                #expect(counters.unseen == 0 && counters.merged > 0, "\(counters.summary)")
                try second.end()
            }
        }

        @Test(
            "A program that renames a new file over a document waits for another program that just writes it",
            arguments: ["rename", "aside"])
        func aRenameWaitsForAWriter(way: String) throws {
            let code = """
                import os, sys
                way, path, line, text = sys.argv[1:]
                text = open(path).read().replace(line, text)
                print("ready", flush=True)
                sys.stdin.readline()
                file = os.open(path if way == "write" else path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
                os.write(file, text.encode())
                if way != "write":
                    os.close(file)
                print("written", flush=True)
                if way == "aside":
                    os.rename(path, path + "~")
                if way != "write":
                    os.rename(path + ".new", path)
                else:
                    sys.stdin.readline()
                    os.close(file)
                """
            try Self.withMount { mount, document in
                let start = { (words: [String]) in
                    let program = try Program("python3").start(
                        "-c", code, words[0], document, words[1], words[2], input: .keyboard)
                    try eventually(within: .seconds(20), "a program to read: \(program.errorText)") {
                        program.text == "ready\n"
                    }
                    return program
                }
                let writer = try start(["write", "line 2\n", "second\n"])
                let saver = try start([way, "line 19", "first"])
                for program in [writer, saver] {
                    try program.type("\n")
                    try eventually(within: .seconds(20), "a program to write: \(program.errorText)") {
                        program.text == "ready\nwritten\n"
                    }
                }
                // The rename of the second program has begun, and waits at most 200 ms for this end.
                writer.endInput()
                try saver.wait(within: .seconds(20)).requireSuccess()
                try writer.wait(within: .seconds(20)).requireSuccess()
                #expect(try Program("cat").run(document).text == Self.text([2: "second", 19: "first"]))
                let counters = try mount.counters
                #expect(counters.unseen == 0 && counters.merged > 0, "\(counters.summary)")
            }
        }

        private struct Edits: Decodable {
            let lines: Int
            let missing: [String]
            let doubled: [String]
        }

        @Test(
            "Two editors and an agent append to sections of one document, and no line of any of them is lost",
            arguments: ["truncate", "rename", "mixed"])
        func noLineOfAnyProgramIsLost(way: String) throws {
            let rounds = try Lab.number("TRUCE_MERGES", default: Lab.isLong ? 200 : 6)
            let seed = UInt32.random(in: 0..<1_000_000)
            try Self.withMount { mount, _ in
                let worker = try Program("python3").run(
                    Checkout.path("Tests/Workers/merged-edits"), mount.path, try Lab.freshDirectory("place"),
                    "\(rounds)",
                    way, "\(seed)", within: .seconds(300))
                let edits = try JSONDecoder().decode(Edits.self, from: Data(worker.output))
                print("\(way), seed \(seed): \(edits.lines) lines, \(edits.missing.count) missing")
                #expect(edits.lines == 3 * rounds)
                #expect(edits.missing == [] && edits.doubled == [])
                checkForcedSteps(try mount.status())
            }
        }
    }
}

/// An agent that reads and writes whole files as a test tells it, as the agents of `Scripts/corpus` do.
private struct TextAgent {
    private let program: RunningProgram

    init() throws {
        program = try Program("python3").start(
            Checkout.path("Scripts/lib/corpus/run"), "--agent", "/dev/stdout", input: .keyboard)
    }

    func read(_ path: String) throws -> String {
        try ask([["do": "read", "path": path, "by": "self"]])["text"] ?? ""
    }

    /// Saves each of the texts, without a pause between them.
    func write(_ texts: String..., to path: String, by way: String) throws {
        _ = try ask(texts.map { ["do": "write", "path": path, "text": $0, "by": way] })
    }

    func end() throws {
        program.endInput()
        try program.wait(within: .seconds(20)).requireSuccess()
    }

    /// Returns the answer to the last order.
    private func ask(_ orders: [[String: String]]) throws -> [String: String] {
        let expected = answers.count + orders.count
        let lines = try orders.map { String(decoding: try JSONEncoder().encode($0), as: UTF8.self) + "\n" }
        try program.type(lines.joined())
        try eventually(within: .seconds(20), "the agent to answer: \(program.errorText)") {
            answers.count >= expected
        }
        let answer = try JSONDecoder().decode([String: String].self, from: Data(answers[expected - 1].utf8))
        if let error = answer["error"] { throw TestFailure("\(orders): \(error)") }
        return answer
    }

    private var answers: [Substring] { program.text.split(separator: "\n") }
}

extension MountedDirectory {
    fileprivate func texts(ofVersionsOf name: String) throws -> [String] {
        try kept(name).map { try text(ofKept: $0.id) }
    }
}
