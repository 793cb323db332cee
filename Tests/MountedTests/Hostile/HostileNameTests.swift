// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

extension MountTests {
    /// Checks file names that contain terminal escapes, line ends, or marks that reverse the direction of text.
    @Suite struct HostileNameTests {
        private static let hostile = "a\u{1b}[31m\nb\u{202e}c\u{2028}d\u{9b}e\u{200f}f"
        private static let obeyed: Set<Unicode.Scalar> = [
            "\u{1b}", "\u{202e}", "\u{2028}", "\u{9b}", "\u{200f}",
        ]

        @Test("Commands and the log escape control characters in names; JSON contains the exact names")
        func controlCharactersInNamesAreEscaped() throws {
            let parent = try Lab.freshDirectory(Self.hostile)
            let mount = try MountedDirectory(in: parent)
            defer { mount.abandon() }
            let file = mount.path + "/" + Self.hostile
            try FileContents.write("text\n", to: file)
            try mount.mount()
            // The kernel stores at most 15 bytes of a program's name.
            let holder = try Program("python3").start("-c", Self.holding, file, input: .keyboard)
            defer { holder.endInput() }
            try eventually(within: .seconds(20), "a holder\n\(holder.errorText)") { holder.text == "open\n" }
            for words in [
                ["why", file], ["ps"], ["ps", file], ["status", mount.path], ["doctor", mount.path],
                ["rules", mount.path], ["versions", mount.path], ["unmount", mount.path],
                ["mount", mount.path],
                ["versions", file, "restore", "none", file], ["why", parent], ["mount", parent, file],
            ] {
                let outcome = try Script("exec \"$@\"").attempt(
                    arguments: [try Lab.variable("TRUCE_BINARY")] + words)
                let said = outcome.text + outcome.errorText
                let odd = said.unicodeScalars.filter { Self.obeyed.contains($0) }
                #expect(odd.isEmpty, "\(words[0]): \(said.debugDescription)")
                // The only line end in the output's first line is at its end.
                #expect(!said.contains("[31m\nb"), "\(words[0]): \(said.debugDescription)")
            }
            let why = try TruceCommand.run("why", file).text
            #expect(why.contains(#"a\x1b[31m\x0ab\u{202e}c\u{2028}d\u{9b}e\u{200f}f"#), "\(why)")
            #expect(why.contains(#"p\x1b\x0a\u{202e}q (pid \#(holder.pid))"#), "\(why)")
            let json = try TruceCommand.run("why", "--json", file).output
            let census = try JSONDecoder().decode(PsClaims.self, from: Data(json))
            #expect(census.claims.map(\.path) == [Self.hostile])
            #expect(census.claims.map(\.actor.program) == ["p\u{1b}\n\u{202e}q"])
        }

        private struct PsClaims: Decodable {
            struct Claim: Decodable {
                struct ClaimProcess: Decodable { var program: String }
                var actor: ClaimProcess
                var path: String
            }
            var claims: [Claim]
        }

        private static let holding = """
            import ctypes, os, sys
            ctypes.CDLL(None).prctl(15, "p\\x1b\\n\\u202eq".encode(), 0, 0, 0)
            file = os.open(sys.argv[1], os.O_WRONLY)
            os.write(file, b"changed")
            print("open", flush=True)
            sys.stdin.read()
            """
    }
}
