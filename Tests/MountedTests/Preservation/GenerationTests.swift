// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

/// The extended attribute `user.truce.generation`.
extension MountTests {
    @Suite struct GenerationTests {
        private static func generation(_ document: String) throws -> String {
            try Program("getfattr").run(
                "--only-values", "-n", "user.truce.generation", "--absolute-names", document
            ).text
        }

        @Test("A generation changes with the contents, and not with names, modes or times")
        func aGenerationChangesWithTheContents() throws {
            let prepare = { (source: String) in try FileContents.write("old", to: source + "/document") }
            try MountedDirectory.with(prepare: prepare) { mount in
                let document = mount.path + "/document"
                let (program, other) = (try ScriptedProcess(), try ScriptedProcess())
                let first = try Self.generation(document)
                #expect(first.hasPrefix("t"))
                // Nothing but reads: the document is not remembered.
                for reader in [program, other] { try reader.must("read", document) }
                #expect(try Self.generation(document) == first)
                try other.must("put", document, "new")
                var known = [first, try Self.generation(document)]
                #expect(known[1].hasPrefix("e"))
                for command in ["chmod 600", "ln -f document link; :", "touch -d 2020-01-01", "cat"] {
                    try Script("eval \"$1 document\"").run(command, at: mount.path)
                    #expect(try Self.generation(document) == known.last, "\(command)")
                }
                try Script("mv document aside; mv aside document").run(at: mount.path)
                #expect(try Self.generation(document) == known.last)
                for command in [
                    "echo more >>document", "truncate -s 2 document", "echo x >new; mv new document",
                    "sed -i s/x/y/ document",
                    "cp -p /etc/passwd document",
                ] {
                    try Script("eval \"$1\"").run(command, at: mount.path)
                    let next = try Self.generation(document)
                    #expect(next.hasPrefix("e") && !known.contains(next), "\(command)")
                    known.append(next)
                }
                try FileContents.write("around the mount", to: mount.below + "/document")
                #expect(!known.contains(try Self.generation(document)))
                #expect(
                    try !Program("getfattr").run("-d", "--absolute-names", document).text.contains(
                        "generation"))
            }
        }

        @Test("A generation outlives a clean end of the daemon; after a crash it is unknown")
        func aGenerationOutlivesACleanEnd() throws {
            let mount = try MountedDirectory()
            try FileContents.write("old", to: mount.path + "/document")
            try mount.mount()
            do {
                let document = mount.path + "/document"
                let (program, other) = (try ScriptedProcess(), try ScriptedProcess())
                try program.must("read", document)
                try other.must("put", document, "new")
                let first = try Self.generation(document)
                try mount.unmount()
                try mount.mount()
                #expect(first.hasPrefix("e"))
                #expect(try Self.generation(document) == first)
                // A second clean end, without a use of the document.
                try mount.unmount()
                try mount.mount()
                #expect(try Self.generation(document) == first)
                try mount.kill()
                try mount.mount()
                #expect(try Self.generation(document) != first)
                try program.must("read", document)
                try other.must("put", document, "newer")
                let later = try Self.generation(document)
                #expect(later.prefix { $0 != "-" } != first.prefix { $0 != "-" })
                for process in [program, other] { try process.program.end() }
                try mount.unmount()
            } catch {
                mount.abandon()
                throw error
            }
        }
    }
}
