// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// Runs the small client of Protocol.md in each of its languages, among programs that do not use the protocol.
    @Suite struct ProtocolClientTests {
        /// The languages of the example clients, in the order of Protocol.md.
        enum Language: String, CaseIterable, Sendable {
            case python = "Python"
            case shell = "a shell"
            case neovim = "Neovim"
            case emacs = "Emacs"
            case swift = "Swift"

            /// The name under which the daemon lists the client. It is the name of the program that runs in the end, not of its
            /// launcher.
            var program: String {
                switch self {
                case .python: "python3"
                case .shell: "client.sh"
                case .neovim: "nvim"
                case .emacs: "emacs"
                case .swift: "SwiftClient"
                }
            }

            func start(_ mount: String, _ file: String, _ folder: String) throws -> RunningProgram {
                let clients = Checkout.path("Tests/Workers/clients")
                switch self {
                case .python: return try Program("python3").start(clients + "/client.py", mount, file, folder)
                case .shell:
                    return try Script("exec \"$1\" \"${@:2}\"").start(
                        clients + "/client.sh", mount, file, folder)
                case .neovim:
                    return try Program("nvim").start(
                        "--headless", "--clean", "-n",
                        "--cmd", "let g:client = ['\(mount)', '\(file)', '\(folder)']",
                        "-S", clients + "/client.lua", with: try Self.withCommand)
                case .emacs:
                    return try Program("emacs").start(
                        "--batch", "--quick", "--load", clients + "/client.el", mount, file, folder,
                        with: try Self.withCommand)
                case .swift: return try BuiltProgram.start("SwiftClient", mount, file, folder)
                }
            }

            /// The environment in which the command `truce` is the binary under test.
            private static var withCommand: [String: String] {
                get throws {
                    let directory = try Lab.variable("TRUCE_BINARY").split(separator: "/").dropLast()
                    let path = getenv("PATH").map { String(cString: $0) } ?? ""
                    return ["PATH": "/\(directory.joined(separator: "/")):\(path)"]
                }
            }
        }

        /// A running client and its output.
        struct ClientRun {
            let program: RunningProgram
            var lines: [String] {
                // Emacs prints messages on standard error.
                (program.text + program.errorText).split(separator: "\n").map {
                    $0.trimmingCharacters(in: .whitespaces)
                }
            }

            func wait(for line: String) throws {
                try eventually(within: .seconds(20), "'\(line)' in \(lines)") {
                    if program.hasEnded, !lines.contains(line) {
                        throw TestFailure("it ended without '\(line)': \(lines)")
                    }
                    return lines.contains(line)
                }
            }
        }

        @Test(
            "A client of the protocol saves for cat, gets a shell's append, writes, and gets a new file's event",
            arguments: Language.allCases)
        func protocolClientsSaveWriteAndListen(language: Language) throws {
            try MountedDirectory.with(
                "ask-again=0ms",
                prepare: { try Script("mkdir \"$1/letters\"; echo 'on disk' >\"$1/notes.md\"").run($0) }
            ) { mount in
                let notes = mount.path + "/notes.md"
                let other = try PresenterTests.present(mount)
                let client = ClientRun(program: try language.start(mount.path, "notes.md", "letters"))
                try client.wait(for: "presenting notes.md")
                #expect(try FileContents.text(of: mount.below + "/notes.md") == "on disk\n")

                #expect(try Program("cat").run(notes).text == "unsaved words of \(language.rawValue)\n")
                try client.wait(for: "saved for cat")

                let before = try mount.status().lastStep
                try Script("echo appended >>\"$1\"").run(notes)
                try client.wait(for: "changed by bash")
                try client.wait(for: "counted the lines")
                #expect(try Program("cat").run(notes + ".count").text == "2\n")
                try checkAccess(of: language, asking: other.pid, since: before, in: mount)

                try Program("touch").run(mount.path + "/letters/first")
                try client.wait(for: "letters/first appeared by touch")
                try client.program.wait(within: .seconds(20)).requireSuccess()
                #expect(
                    client.lines == [
                        "presenting notes.md", "saved for cat", "changed by bash", "counted the lines",
                        "letters/first appeared by touch",
                    ])
                try other.end()
                try eventually(within: .seconds(10), "nothing to be left of the clients") {
                    let census = try TruceCommand.run("ps", "--json", mount.path).text
                    return census.contains("\"claims\":[]") && !census.contains("notes.md")
                }
                checkForcedSteps(try mount.status())
            }
        }

        @Test("The shortest clients in Protocol.md work as documented", arguments: ["python", "sh"])
        func shortestDocumentedClientsWork(language: String) throws {
            try MountedDirectory.with(prepare: { try FileContents.write("on disk\n", to: $0 + "/a.md") }) {
                mount in
                let client = try Self.startShortest(language, in: mount)
                #expect(try Program("cat").run(mount.path + "/a.md").text == "not saved yet\n")
                try client.end()
                checkForcedSteps(try mount.status())
            }
        }

        /// Starts the shortest client and waits until it presents `a.md`.
        static func startShortest(_ language: String, in mount: MountedDirectory) throws -> RunningProgram {
            let directory = try Lab.freshDirectory("short")
            try FileContents.write(try Self.example(language, of: mount.path), to: directory + "/short")
            let client =
                language == "python"
                ? try Program("python3").start(directory + "/short")
                : try Script("chmod +x short; exec socat \"UNIX-CONNECT:$1\" EXEC:./short,nofork").start(
                    try mount.socket(), at: directory)
            try eventually(within: .seconds(20), "the presenter: \(client.errorText)") {
                try Editor.isPresented("a.md", by: client.pid, in: mount)
            }
            return client
        }

        /// The client's code from Protocol.md, with the path of the test's mount.
        private static func example(_ language: String, of mount: String) throws -> String {
            let text = try FileContents.text(
                of: Checkout.path("Sources/ControlProtocol/ControlProtocol.docc/Protocol.md"))
            let blocks = text.components(separatedBy: "```\(language)\n").dropFirst()
            let block = try #require(blocks.first, "Protocol.md has no example in \(language)")
            let code = block.components(separatedBy: "```")[0]
            try #require(code.contains("~/notes"))
            return code.replacing("~/notes", with: mount)
        }

        /// Checks in the journal that another presenter of the file was asked to relinquish for the client's access. The
        /// presenter was not asked to save, because the access has the option `withoutChanges`.
        private func checkAccess(
            of language: Language, asking other: Int32, since before: UInt64, in mount: MountedDirectory
        ) throws {
            let status = try mount.status()
            let asked = PresenterExchange(status, with: other, since: before).steps.filter {
                $0.kind == "asked" && $0.program == language.program
            }
            #expect(asked.map(\.message) == ["relinquishToReader"], "\(status.journalText())")
        }
    }
}
