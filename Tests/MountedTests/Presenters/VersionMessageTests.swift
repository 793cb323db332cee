// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

/// The messages about versions that a client of the socket gets for a file and for the folder above it.
extension MountTests {
    @Suite struct VersionMessageTests {
        /// A client that presents `note.md` and the root of the mount.
        private final class Listener {
            private let program: RunningProgram
            private var seen = 1

            init(_ mount: MountedDirectory) throws {
                program = try Program("python3").start(
                    Checkout.path("Tests/Workers/version-notices"), try mount.socket(), "note.md", "")
                try eventually(within: .seconds(20), "the registrations\n\(program.errorText)") {
                    program.text.hasPrefix("ready\n")
                }
            }

            /// Waits for the two notices about a change of a version, and returns the version.
            func next(_ change: String, by cause: String = "-") throws -> String {
                let lines = { [program] in program.text.split(separator: "\n").map(String.init) }
                try eventually(within: .seconds(20), "'\(change)' after \(lines())") {
                    if program.hasEnded { throw TestFailure("the listener has ended: \(program.errorText)") }
                    return lines().count >= seen + 2
                }
                let found = Array(lines()[seen..<seen + 2])
                seen += 2
                let id = found[0].split(separator: " ").dropFirst(2).first.map(String.init) ?? ""
                #expect(found[0] == "note.md presenter/did\(change) \(id) - \(cause)")
                #expect(found[1] == "- presenter/subitemDid\(change) \(id) note.md \(cause)")
                return id
            }

            func end() throws {
                #expect(program.text.split(separator: "\n").count == seen, "\(program.text)")
                program.send(SIGTERM)
                _ = try program.wait(within: .seconds(10))
            }
        }

        @Test("A client is told of an unseen overwrite, of its resolution, and of the removal of its version")
        func aClientIsToldOfAnUnseenOverwrite() throws {
            try MountedDirectory.with(prepare: { try FileContents.write("one\n", to: $0 + "/note.md") }) {
                mount in
                let document = mount.path + "/note.md"
                let listener = try Listener(mount)
                let (editor, other) = (try ScriptedProcess(), try ScriptedProcess())
                try editor.must("read", document)
                try other.must("put", document, "theirs")
                try editor.must("put", document, "mine")
                let version = try listener.next("Gain", by: "python3")
                #expect(try mount.text(ofKept: version) == "theirs")
                try TruceCommand.run("versions", document, "resolve")
                #expect(try listener.next("Resolve") == version)
                try TruceCommand.run("versions", document, "prune")
                #expect(try listener.next("Lose") == version)
                #expect(try mount.kept("note.md").isEmpty)
                try listener.end()
            }
        }

        @Test(
            "A client is told of the conflict copy of a tool, of its end, and of the removal of its version")
        func aClientIsToldOfAConflictCopy() throws {
            try MountedDirectory.with(prepare: { try FileContents.write("ours\n", to: $0 + "/note.md") }) {
                mount in
                let copy = mount.path + "/note.sync-conflict-20261128-101530-ABCDEF7.md"
                let listener = try Listener(mount)
                let tool = try ScriptedProcess()
                try tool.must("put", copy, "theirs")
                let version = try listener.next("Gain", by: "Syncthing")
                #expect(try mount.text(ofKept: version) == "theirs")
                try tool.must("unlink", copy)
                #expect(try listener.next("Resolve") == version)
                try TruceCommand.run("versions", mount.path + "/note.md", "remove", version)
                #expect(try listener.next("Lose") == version)
                try listener.end()
            }
        }
    }
}
