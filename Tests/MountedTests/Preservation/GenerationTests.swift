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

        /// Makes a document that was not changed a moment ago.
        private static func makeOldDocument(in source: String) throws {
            try FileContents.write("old", to: source + "/document")
            try Program("touch").run("-d", "@1577836800", source + "/document")
        }

        @Test(
            "A change that leaves size and time as they were is no secret to a comparison with an older token"
        )
        func aHiddenChangeIsFound() throws {
            try MountedDirectory.with(prepare: Self.makeOldDocument) { mount in
                let document = mount.path + "/document"
                let (program, other) = (try ScriptedProcess(), try ScriptedProcess())
                try program.must("read", document)
                let token = try Self.generation(document)
                #expect(token.hasPrefix("t"))
                let write = {
                    try TruceCommand.attempt("write", document, "--if-generation", token, "--", "true")
                }
                #expect(try write().isSuccess)
                try other.must("open", "d", document, "O_RDWR")
                try other.must("overwrite", "d", "new")
                try other.must("close", "d")
                // The token of the file itself is the same.
                let status = try FileContents.text(of: mount.below + "/document")
                #expect(status == "new" && Self.modified(mount.below + "/document") == 1_577_836_800)
                let result = try write()
                #expect(!result.isSuccess && result.errorText.contains("changed"), "\(result.errorText)")
            }
        }

        /// The time of modification of a file, in seconds since 1970.
        private static func modified(_ path: String) -> Int {
            var status = stat()
            return stat(path, &status) == 0 ? status.st_mtim.tv_sec : 0
        }

        @Test("Only files have generations", arguments: ["mkdir", "mkfifo"])
        func onlyFilesHaveGenerations(making: String) throws {
            try MountedDirectory.with(prepare: Self.makeOldDocument) { mount in
                try Script("eval \"$1 other\"").run(making, at: mount.path)
                let result = try TruceCommand.attempt("generation", mount.path + "/other")
                #expect(result.errorText == "truce: there is no file at 'other'\n", "\(result.text)")
            }
        }

        @Test("No program can set or remove the generation of a document")
        func noProgramCanSetAGeneration() throws {
            try MountedDirectory.with(prepare: Self.makeOldDocument) { mount in
                let document = mount.path + "/document"
                let first = try Self.generation(document)
                for words in [
                    ["-n", "user.truce.generation", "-v", "e1-1"], ["-x", "user.truce.generation"],
                ] {
                    let result = try Script("setfattr \"$@\"").attempt(arguments: words + [document])
                    #expect(!result.isSuccess, "\(words)")
                }
                let below = try Program("getfattr").run("-d", "--absolute-names", mount.below + "/document")
                #expect(try !below.text.contains("generation") && Self.generation(document) == first)
            }
        }

        @Test("A generation changes with the contents, and not with names, modes or times")
        func aGenerationChangesWithTheContents() throws {
            try MountedDirectory.with(prepare: Self.makeOldDocument) { mount in
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
            try Self.makeOldDocument(in: mount.path)
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
