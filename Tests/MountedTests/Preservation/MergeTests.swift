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
            "If changes are too close to each other, the file stays as its writer wrote it, and the other text is a version",
            arguments: [9, 10, 12], ["truncate", "rename"])
        func closeChangesAreNotMerged(line: Int, way: String) throws {
            try Self.withMount { mount, document in
                let (first, second) = (try TextAgent(), try TextAgent())
                _ = try first.read(document)
                _ = try second.read(document)
                try second.write(Self.text([line: "second"]), to: document, by: way)
                try first.write(Self.text([10: "first"]), to: document, by: way)
                #expect(try Program("cat").run(document).text == Self.text([10: "first"]))
                #expect(try mount.texts(ofVersionsOf: "notes.md") == [Self.text([line: "second"])])
                try first.end()
                try second.end()
                checkForcedSteps(try mount.status())
            }
        }

        private struct Edits: Decodable {
            let lines: Int
            let missing: [String]
            let doubled: [String]
        }

        @Test(
            "Two editors and an agent append to sections of one document, and no line of any of them is lost",
            arguments: ["truncate", "rename"])
        func noLineOfAnyProgramIsLost(way: String) throws {
            let rounds = try Lab.number("TRUCE_MERGES", default: Lab.isLong ? 200 : 20)
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
        try ask(["do": "read", "path": path, "by": "self"])["text"] ?? ""
    }

    func write(_ text: String, to path: String, by way: String) throws {
        _ = try ask(["do": "write", "path": path, "text": text, "by": way])
    }

    func end() throws {
        program.endInput()
        try program.wait(within: .seconds(20)).requireSuccess()
    }

    private func ask(_ order: [String: String]) throws -> [String: String] {
        let known = answers.count
        try program.type(String(decoding: try JSONEncoder().encode(order), as: UTF8.self) + "\n")
        try eventually(within: .seconds(20), "the agent to answer: \(program.errorText)") {
            answers.count > known
        }
        let answer = try JSONDecoder().decode([String: String].self, from: Data(answers[known].utf8))
        if let error = answer["error"] { throw TestFailure("\(order): \(error)") }
        return answer
    }

    private var answers: [Substring] { program.text.split(separator: "\n") }
}

extension MountedDirectory {
    fileprivate func texts(ofVersionsOf name: String) throws -> [String] {
        try kept(name).map { try text(ofKept: $0.id) }
    }
}
