// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

/// Command.md, "Versions": the command `truce versions` on a mount whose store an earlier release has made.
extension MountTests {
    @Suite struct VersionTests {
        /// Makes a document with one version, as an earlier release has left them. The log line has none of the later fields.
        private static func prepareFormerStore(in source: String) throws {
            _ = try Script(
                """
                cd "$1"
                echo present >draft.md
                mkdir -m 755 .truce
                mkdir -m 700 .truce/store .truce/store/kept
                printf 'truce store 1\\n' >.truce/store/version
                milliseconds=$(date +%s%3N)
                id=$(printf %012x0000 "$milliseconds")
                echo former >".truce/store/kept/$id"
                stat --format='%d %i %u %g' draft.md | {
                    read -r device inode user group
                    printf '{"cause":"orphan","device":%s,"event":"kept","group":%s,"id":"%s","inode":%s,' \\
                        "$device" "$group" "$id" "$inode"
                    printf '"method":"copy","mode":33188,"nanoseconds":%s000000,"path":"draft.md",' "$milliseconds"
                    printf '"pathBytes":"ZHJhZnQubWQ=","size":7,"time":"","user":%s}\\n' "$user"
                } >.truce/store/kept.log
                chmod 600 .truce/store/version .truce/store/kept.log ".truce/store/kept/$id"
                """
            ).run(source)
        }

        private static func lines(_ path: String, _ options: String...) throws -> [String] {
            let output = try TruceCommand.runWords(["versions", path] + options)
            return output.text.split(separator: "\n").map(String.init)
        }

        @Test(
            "A store of an earlier release is taken over, and its version is listed, shown, compared and restored"
        )
        func aFormerStoreIsTakenOver() throws {
            try MountedDirectory.with(prepare: { try Self.prepareFormerStore(in: $0) }) { mount in
                let document = mount.path + "/draft.md"
                let line = try #require(try Self.lines(document).first)
                #expect(line.contains("  today ") || line.contains("  yesterday "), "\(line)")
                #expect(
                    line.hasSuffix("written to a file that was replaced or deleted  (in conflict)"), "\(line)"
                )
                let id = String(line.prefix(16))
                #expect(try Self.lines(document, "show", id) == ["former"])
                let difference = try Self.lines(document, "diff", id)
                #expect(difference.contains("-former") && difference.contains("+present"), "\(difference)")
                #expect(try Self.lines(document, "diff", "--tool", "cat") == ["former", "present"])
                #expect(try Self.lines(document, "resolve") == ["resolved 1 version"])
                #expect(try Self.lines(document, "resolve") == ["resolved 0 versions"])

                try TruceCommand.run("versions", document, "restore", id)
                #expect(try FileContents.text(of: document) == "former\n")
                let restored = try #require(try mount.kept("draft.md").first)
                #expect(restored.cause == "restoring")
                #expect(try Self.lines(document, "show", restored.id) == ["present"])
                try mount.unmount()
                try mount.mount()
                let after = try Self.lines(document)
                #expect(after.count == 2 && after[1].hasSuffix("(resolved)"), "\(after)")
                #expect(try Self.lines(document, "remove", id) == ["removed 1 version"])
                #expect(try Self.lines(document, "prune") == ["removed 1 version"])
                #expect(try Self.lines(mount.path).isEmpty)
                try mount.unmount()
                try mount.mount()
                #expect(try Self.lines(mount.path).isEmpty)
            }
        }

        @Test("Versions follow their document through a rename, a save by rename, and to another hard link")
        func versionsFollowTheirDocument() throws {
            try MountedDirectory.with(prepare: { try Self.prepareFormerStore(in: $0) }) { mount in
                let program = try ScriptedProcess()
                let ids = { (name: String) in try mount.kept(name).map { $0.id } }
                let id = try #require(try ids("draft.md").first)
                // A backup of the document leaves the versions with the document's name.
                try program.must("rename", mount.path + "/draft.md", mount.path + "/draft.md~")
                try program.must("put", mount.path + "/draft.md", "saved")
                #expect(try ids("draft.md") == [id])
                try program.must("put", mount.path + "/new", "saved again")
                try program.must("rename", mount.path + "/new", mount.path + "/draft.md")
                #expect(try ids("draft.md") == [id])
                try program.must("rename", mount.path + "/draft.md", mount.path + "/final.md")
                #expect(try ids("final.md") == [id])
                try Program("mkdir").run(mount.path + "/folder")
                try program.must("rename", mount.path + "/final.md", mount.path + "/folder/final.md")
                try program.must("rename", mount.path + "/folder", mount.path + "/archive")
                #expect(try ids("archive/final.md") == [id])
                try mount.unmount()
                try mount.mount()
                #expect(try ids("archive/final.md") == [id])
                #expect(try ids("draft.md~") == [id])
            }
        }

        @Test(
            "A user that may read a document but not write it sees its versions, and cannot remove or resolve them"
        )
        func readersCannotChangeVersions() throws {
            guard geteuid() == 0 else { return print("only root has other users: shown by the run as root") }
            try MountedDirectory.with("allow_other", prepare: { try Self.prepareFormerStore(in: $0) }) {
                mount in
                let document = mount.path + "/draft.md"
                let binary = try Lab.variable("TRUCE_BINARY")
                let asOther = { (words: [String]) in
                    try Script("setpriv --reuid=65534 --regid=65534 --clear-groups \"$@\"").attempt(
                        arguments: [binary, "versions", document] + words)
                }
                let id = try #require(try mount.kept("draft.md").first?.id)
                #expect(try asOther([]).requireSuccess().text.contains(id))
                for words in [["remove", id], ["resolve", id]] {
                    let refused = try asOther(words)
                    #expect(refused.ending == .exited(6), "\(refused.errorText)")
                    #expect(refused.errorText.contains("no right to write"), "\(refused.errorText)")
                }
                #expect(try asOther(["prune"]).requireSuccess().text == "removed 0 versions\n")
                #expect(try asOther(["resolve"]).requireSuccess().text == "resolved 0 versions\n")
                #expect(try mount.kept("draft.md").map { $0.id } == [id])
                #expect(chmod(document, 0o600) == 0)
                #expect(try asOther([]).requireSuccess().text.isEmpty)
                #expect(try asOther(["show", id]).ending == .exited(6))
            }
        }
    }
}
