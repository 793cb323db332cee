// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// Checks programs that write a file and immediately read it back, while a presenter presents the file.
    @Suite struct ReadAfterWriteTests {
        /// The presenter's action after a change of the file: see `Tests/Workers/reading-back`.
        enum Kind: String, CaseIterable, Sendable { case blind, prompt, slow, late }

        /// How a program writes "$2" to "$1" and then prints the contents of "$1".
        enum RewriteMethod: String, CaseIterable, Sendable {
            case inPlace, appending, whileOpen, renamedOver, removedFirst, oneProcess

            var script: Script {
                switch self {
                case .inPlace: Script("echo \"$2\" >\"$1\"; cat \"$1\"")
                case .appending: Script(": >\"$1\"; echo \"$2\" >>\"$1\"; cat \"$1\"")
                case .whileOpen: Script("exec 3>\"$1\"; echo \"$2\" >&3; cat \"$1\"; exec 3>&-")
                case .renamedOver: Script("echo \"$2\" >\"$1.new\"; mv \"$1.new\" \"$1\"; cat \"$1\"")
                case .removedFirst: Script("rm \"$1\"; echo \"$2\" >\"$1\"; cat \"$1\"")
                case .oneProcess:
                    Script(
                        """
                        exec python3 -c 'import sys
                        with open(sys.argv[1], "w") as file: file.write(sys.argv[2] + chr(10))
                        with open(sys.argv[1]) as file: sys.stdout.write(file.read())' "$1" "$2"
                        """)
                }
            }
        }

        private static let rounds = 3

        @Test(
            "A program reads back its own writes, and no presenter saves over them", arguments: Kind.allCases,
            RewriteMethod.allCases
        )
        func aProgramReadsBackItsOwnWrites(kind: Kind, way: RewriteMethod) throws {
            try MountedDirectory.with("ask-again=0ms", prepare: PresenterTests.writeNotes) { mount in
                let notes = mount.path + "/notes.md"
                let presenter = try Self.start(kind, in: mount)
                for round in 1...Self.rounds {
                    let text = "written \(round)\n"
                    let outcome = try way.script.run(notes, "written \(round)", within: .seconds(20))
                    #expect(outcome.text == text, "\(presenter.text)")
                    if kind != .blind { try Self.waitForTurns(of: presenter) }
                    #expect(try FileContents.text(of: mount.below + "/notes.md") == text, "\(presenter.text)")
                }
                #expect(Self.savesUntold(presenter.text) == 0, "\(presenter.text)")
                try presenter.end()
                checkForcedSteps(try mount.status())
            }
        }

        @Test(
            "A program reads what another program wrote, and no presenter saves over it",
            arguments: Kind.allCases)
        func aProgramReadsBackAnotherProgramsWrites(kind: Kind) throws {
            try MountedDirectory.with("ask-again=0ms", prepare: PresenterTests.writeNotes) { mount in
                let notes = mount.path + "/notes.md"
                let presenter = try Self.start(kind, in: mount)
                for round in 1...Self.rounds {
                    try Script("echo \"$2\" >\"$1\"").run(notes, "written \(round)", within: .seconds(20))
                    #expect(try Program("cat").run(notes, within: .seconds(20)).text == "written \(round)\n")
                }
                #expect(Self.savesUntold(presenter.text) == 0, "\(presenter.text)")
                try presenter.end()
                checkForcedSteps(try mount.status())
            }
        }

        @Test(
            "With the shortest clients of Protocol.md as presenters, a shell reads back its own writes",
            arguments: ["python", "sh"])
        func withTheShortestClientsWritesAreReadBack(language: String) throws {
            try MountedDirectory.with(
                "ask-again=0ms", prepare: { try FileContents.write("on disk\n", to: $0 + "/a.md") }
            ) {
                mount in
                let client = try ProtocolClientTests.startShortest(language, in: mount)
                for round in 1...Self.rounds {
                    let outcome = try Script("echo \"$2\" >\"$1\"; cat \"$1\"").run(
                        mount.path + "/a.md", "written \(round)", within: .seconds(20))
                    #expect(outcome.text == "written \(round)\n")
                    // The second program also reads the written contents, because the presenter saves only contents that it has
                    // loaded.
                    #expect(try Program("cat").run(mount.path + "/a.md").text == "written \(round)\n")
                }
                try client.end()
                checkForcedSteps(try mount.status())
            }
        }

        static func start(_ kind: Kind, in mount: MountedDirectory) throws -> RunningProgram {
            let presenter = try Program("python3").start(
                Checkout.path("Tests/Workers/reading-back"), try mount.socket(), mount.path, "notes.md",
                kind.rawValue)
            try eventually(within: .seconds(20), "the presenter: \(presenter.errorText)") {
                presenter.text.hasPrefix("presenting\n")
            }
            return presenter
        }

        /// Waits until the presenter has got a reacquire for each question to relinquish.
        private static func waitForTurns(of presenter: RunningProgram) throws {
            try eventually(within: .seconds(20), "the last turn to end: \(presenter.text)") {
                presenter.text.split(separator: "\n").last { $0 != "didChange" } == "reacquire"
            }
        }

        /// Counts the questions to save that a presenter gets after it relinquished to a writer, and before it may reacquire. A
        /// question to save directly after the question to relinquish is not counted, because a merge asks both before it
        /// writes.
        private static func savesUntold(_ text: String) -> Int {
            let lines = text.replacing("relinquishToWriter\nsave\n", with: "relinquishToWriter\n")
            var hasLetIn = false
            return lines.split(separator: "\n").count { line in
                switch line {
                case "relinquishToWriter": hasLetIn = true
                case "reacquire": hasLetIn = false
                default: break
                }
                return line == "save" && hasLetIn
            }
        }
    }

    /// Checks accesses for other processes, and presenters with a server process.
    @Suite struct PartnerProcessTests {
        @Test("During an access on behalf of another process, both processes write, and other programs wait")
        func duringAnAccessOnBehalfOfAnotherProcessBothProcessesMayWrite() throws {
            try MountedDirectory.with("wait=60s", "hold-aware=60s", prepare: PresenterTests.writeNotes) {
                mount in
                let (notes, named) = (mount.path + "/notes.md", try ScriptedProcess())
                let client = try Program("python3").start(
                    Checkout.path("Tests/Workers/acting-for"), try mount.socket(), mount.path, "notes.md",
                    "\(named.pid)", input: .keyboard)
                // If the access did not include the client itself, the client would wait until `wait` is over.
                try eventually(within: .seconds(15), "the client to write: \(client.errorText)") {
                    client.text == "wrote\n"
                }
                #expect(try FileContents.text(of: mount.below + "/notes.md") == "by the client\n")
                try named.must("put", notes, "by the other")
                #expect(try FileContents.text(of: mount.below + "/notes.md") == "by the other")
                let stranger = try Program("cat").start(notes)
                try mount.waitUntilParked(stranger.pid)
                try client.type("\n")
                try client.wait(within: .seconds(20)).requireSuccess()
                #expect(try stranger.wait(within: .seconds(20)).text == "by the other")
                checkForcedSteps(try mount.status())
            }
        }

        @Test("A save by a presenter's server process counts as the presenter's own save")
        func aServerProcessSavesForItsPresenter() throws {
            let stage = try Lab.freshDirectory("stage")
            try Script("mkfifo \"$1/asked\" \"$1/saved\"").run(stage)
            try MountedDirectory.with("ask-again=0ms", "save=60s", prepare: PresenterTests.writeNotes) {
                mount in
                let (notes, server) = (mount.path + "/notes.md", try ScriptedProcess())
                let presenter = try TruceCommand.start(
                    "present", notes, "--server-process", "\(server.pid)", "--on-save",
                    "echo >'\(stage)/asked'; read -r _ <'\(stage)/saved'", "--on-change", "echo changed")
                try eventually(within: .seconds(10), "a presenter: \(presenter.errorText)") {
                    presenter.text.contains("presenting")
                }
                let reader = try Program("cat").start(notes)
                try Program("cat").run(stage + "/asked", within: .seconds(20))
                try server.must("put", notes, "by the server")
                try Script("echo >\"$1/saved\"").run(stage)
                #expect(try reader.wait(within: .seconds(20)).text == "by the server")
                // The presenter gets no message about a write of its own server process, even without a question. It gets a
                // message about another program's change.
                try server.must("put", notes, "by the server again")
                #expect(!presenter.text.contains("changed"), "\(presenter.text)")
                try Script("echo other >\"$1\"").run(notes)
                try eventually(within: .seconds(10), "the change: \(presenter.text)") {
                    presenter.text.contains("changed\n")
                }
                #expect(presenter.text.components(separatedBy: "changed\n").count == 2)
                try presenter.end()
                checkForcedSteps(try mount.status())
            }
        }

        @Test("A registration with a missing or invalid server process is refused, and nothing is presented")
        func anInvalidServerProcessIsRefused() throws {
            try MountedDirectory.with(prepare: PresenterTests.writeNotes) { mount in
                let notes = mount.path + "/notes.md"
                for (pid, words) in [
                    ("2147483647", "there is no process 2147483647"), ("0", "--server-process"),
                    ("vi", "--server-process"),
                ] {
                    let outcome = try TruceCommand.attempt(
                        "present", notes, "--json", "--server-process", pid)
                    #expect(!outcome.isSuccess)
                    #expect(outcome.errorText.contains(words), "\(outcome.errorText)")
                }
                #expect(try TruceCommand.run("ps", "--json", mount.path).text.contains("\"presenters\":[]"))
            }
        }

        @Test(
            "Two presenters that read the file after each change do not wait for each other",
            arguments: ["--on-relinquish", "--on-save"])
        func twoRereadingPresentersDoNotWaitForEachOther(option: String) throws {
            try MountedDirectory.with("relinquish=60s", "wait=60s", prepare: PresenterTests.writeNotes) {
                mount in
                let notes = mount.path + "/notes.md"
                let binary = try Lab.variable("TRUCE_BINARY")
                let command = "'\(binary)' read '\(notes)' -- cat '\(notes)'; echo heard"
                let presenters = try (1...2).map { _ in
                    try TruceCommand.start(
                        "present", notes, "--on-change", command, option, "true",
                        "--on-reacquire", "true")
                }
                for presenter in presenters {
                    try eventually(within: .seconds(10), "a presenter: \(presenter.errorText)") {
                        presenter.text.contains("presenting")
                    }
                }
                for round in 1...3 {
                    try Script("echo \"$2\" >\"$1\"").run(notes, "change \(round)")
                    for presenter in presenters {
                        // If their claims waited for each other, both presenters would wait until their minute is over.
                        try eventually(within: .seconds(15), "both to read: \(presenter.text)") {
                            presenter.text.components(separatedBy: "change \(round)\nheard\n").count > 1
                        }
                    }
                }
                for presenter in presenters {
                    #expect(presenter.errorText == "")
                    try presenter.end()
                }
                checkForcedSteps(try mount.status())
            }
        }
    }
}
