// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

/// `truce write --if-generation` and `truce generation` on real mounts.
extension MountTests {
    @Suite struct CompareAndSwapTests {
        private static func generation(_ path: String) throws -> String {
            try TruceCommand.run("generation", path).text.trimmingCharacters(in: .newlines)
        }

        private static func write(_ path: String, if generation: String, _ script: String) throws
            -> ProgramResult
        {
            try TruceCommand.attempt("write", "--if-generation", generation, path, "--", "sh", "-c", script)
        }

        @Test("A write for the present generation runs its command; a second write for it does not")
        func onlyOneOfTwoWritesForAGenerationRuns() throws {
            try MountedDirectory.with { mount in
                let document = mount.path + "/draft.md"
                try Script("echo one >\"$1\"").run(document)
                let generation = try Self.generation(document)
                #expect(try Self.generation(document) == generation)
                let first = try Self.write(document, if: generation, "echo two >\"$TRUCE_PATH\"")
                #expect(first.isSuccess, "\(first.errorText)")
                let second = try Self.write(document, if: generation, "echo three >\"$TRUCE_PATH\"")
                #expect(second.ending == .exited(123))
                #expect(
                    second.errorText.hasPrefix("truce: draft.md changed since generation \(generation): "),
                    "\(second.errorText)")
                #expect(second.errorText.contains("it is \(try Self.generation(document)) now."))
                #expect(second.errorText.contains("No version of the former contents is preserved"))
                #expect(try FileContents.text(of: document) == "two\n")
                checkForcedSteps(try mount.status())
            }
        }

        @Test(
            "The error names the program that wrote in between, also if no other program used the document before",
            arguments: [
                ("sed", ["sed", "-i", "s/one/two/"]),
                ("python3", ["python3", "-c", CompareAndSwapTests.pythonWrite]),
                ("python3", ["python3", "-c", CompareAndSwapTests.pythonAccess]),
            ])
        func theErrorNamesTheProgramThatWroteInBetween(program: String, words: [String]) throws {
            try MountedDirectory.with(prepare: { try FileContents.write("one\n", to: $0 + "/draft.md") }) {
                mount in
                let document = mount.path + "/draft.md"
                let generation = try Self.generation(document)
                let environment = ["TRUCE": try Lab.variable("TRUCE_BINARY")]
                try Script("exec \"$@\"").attempt(arguments: words + [document], with: environment)
                    .requireSuccess()
                let refused = try Self.write(document, if: generation, "echo four >\"$TRUCE_PATH\"")
                #expect(refused.ending == .exited(123))
                #expect(refused.errorText.contains(": \(program) (pid "), "\(refused.errorText)")
                #expect(refused.errorText.contains(") wrote it at "), "\(refused.errorText)")
                #expect(try FileContents.text(of: document) == "two\n")
            }
        }

        private static let pythonWrite = "import sys; open(sys.argv[1], 'w').write('two\\n')"
        /// A program that writes by `truce write`, and by a shell within it.
        private static let pythonAccess = """
            import os, subprocess, sys
            command = [os.environ["TRUCE"], "write", sys.argv[1], "--", "sh", "-c", 'echo two >"$TRUCE_PATH"']
            subprocess.run(command, check=True)
            """

        @Test("The command in the error shows the difference, if a version has the earlier contents")
        func theErrorNamesACommandThatShowsTheDifference() throws {
            try MountedDirectory.with(prepare: { try FileContents.write("one\n", to: $0 + "/draft.md") }) {
                mount in
                let document = mount.path + "/draft.md"
                let (first, second) = (try ScriptedProcess(), try ScriptedProcess())
                try first.must("read", document)
                try second.must("put", document, "two")
                let generation = try Self.generation(document)
                // The first program has not read the present contents, so its save makes a version of them.
                try first.must("put", document, "three")
                let refused = try Self.write(document, if: generation, "echo four >\"$TRUCE_PATH\"")
                #expect(refused.ending == .exited(123))
                let words = refused.errorText.split(separator: "`")
                #expect(words.count == 3 && words[2] == " shows the difference.\n", "\(refused.errorText)")
                let command = words.count == 3 ? String(words[1].dropFirst("truce ".count)) : ""
                let binary = try Lab.variable("TRUCE_BINARY")
                let shown = try Script("eval \"\\\"$1\\\" $2\"").attempt(arguments: [binary, command])
                #expect(shown.text.contains("\n-two") && shown.text.contains("\n+three"), "\(shown.text)")
            }
        }

        @Test("After a crash of the daemon the generation is unknown, and after a clean end it is known")
        func afterACrashTheGenerationIsUnknown() throws {
            try MountedDirectory.with(prepare: { try FileContents.write("one\n", to: $0 + "/draft.md") }) {
                mount in
                let document = mount.path + "/draft.md"
                let generation = try Self.generation(document)
                try mount.unmount()
                try mount.mount()
                let write = "echo two >\"$TRUCE_PATH\""
                let first = try Self.write(document, if: generation, write)
                #expect(first.isSuccess, "\(first.errorText)")
                let next = try Self.generation(document)
                try mount.kill()
                try mount.mount()
                let refused = try Self.write(document, if: next, "echo three >\"$TRUCE_PATH\"")
                #expect(refused.ending == .exited(123))
                #expect(
                    refused.errorText.hasPrefix(
                        "truce: The generation \(next) of draft.md is not known any more, because the daemon ended"
                    ),
                    "\(refused.errorText)")
                #expect(try FileContents.text(of: document) == "two\n")
                let third = try Self.write(document, if: try Self.generation(document), write)
                #expect(third.isSuccess, "\(third.errorText)")
            }
        }

        @Test("Four programs that increment a number by compare-and-swap lose no increment")
        func incrementsByCompareAndSwapAreNotLost() throws {
            try MountedDirectory.with("wait=60s") { mount in
                let document = mount.path + "/number"
                try Script("echo 0 >\"$1\"").run(document)
                let script = """
                    done=0
                    while [ $done -lt 3 ]; do
                        generation=$("$2" generation "$1")
                        number=$(cat "$1")
                        "$2" write --if-generation "$generation" "$1" -- \
                            sh -c 'echo "$1" >"$TRUCE_PATH"' sh $((number + 1)) 2>/dev/null
                        case $? in 0) done=$((done + 1)) ;; 123) ;; *) exit 1 ;; esac
                    done
                    """
                let binary = try Lab.variable("TRUCE_BINARY")
                let programs = try (0..<4).map { _ in
                    try Program("sh").start("-c", script, "sh", document, binary)
                }
                for program in programs {
                    try program.wait(within: .seconds(120), for: "the end of a program").requireSuccess()
                }
                #expect(try FileContents.text(of: document) == "12\n")
            }
        }

        @Test("The generation is changed by writes, and not by chmod, link or rename")
        func theGenerationIsThatOfTheContents() throws {
            try MountedDirectory.with { mount in
                let (document, moved) = (mount.path + "/a", mount.path + "/b")
                try Script("echo one >\"$1\"").run(document)
                let generation = try Self.generation(document)
                try Script("chmod 600 \"$1\"; ln \"$1\" \"$1.link\"; mv \"$1\" \"$2\"").run(document, moved)
                #expect(try Self.generation(moved) == generation)
                try Script("echo two >>\"$1\"").run(moved)
                #expect(try Self.generation(moved) != generation)
            }
        }

        @Test(
            "A text that is no generation is refused before anything runs", arguments: ["", "12", "e5-12; x"])
        func aTextThatIsNoGenerationIsRefused(text: String) throws {
            try MountedDirectory.with { mount in
                let refused = try Self.write(mount.path + "/new", if: text, "echo >\"$TRUCE_PATH\"")
                #expect(refused.ending == .exited(125), "\(refused.errorText)")
                #expect(refused.errorText.contains("is no generation"), "\(refused.errorText)")
                #expect(!FileManager.default.fileExists(atPath: mount.path + "/new"))
            }
        }
    }
}
