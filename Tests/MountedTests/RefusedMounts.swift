// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

extension Mounted {
    /// What a mount that is refused leaves, and what its paths may be.
    @Suite struct RefusedMounts {
        @Test("A mount that is refused leaves a dead one", arguments: ["file", "place"])
        func dead(mountpoint: String) throws {
            let mount = try MountedDirectory()
            defer { mount.abandon() }
            let other = try Lab.freshDirectory("other")
            try Script("cd \"$1\"; touch file; mkdir place").run(other)
            try mount.mount()
            try mount.kill()
            try TruceCommand.run("mount", other + "/place")
            defer { Self.unmount(other + "/place") }
            let outcome = try TruceCommand.attempt("mount", mount.path, other + "/" + mountpoint)
            try Wrong("mount", code: 1, "\(other)/\(mountpoint)").check(outcome, in: mount.path)
            #expect(outcome.text.isEmpty, "\(outcome.text)")
            #expect(try MountTableText.has(mount.path))
            try mount.mount()
            try mount.unmount()
        }

        @Test("A directory whose path has a control character is mounted, and shown without it")
        func controlCharacter() throws {
            let mount = try MountedDirectory(in: try Lab.freshDirectory("a\ttab"))
            defer { mount.abandon() }
            try mount.mount()
            try Script("echo above >\"$1/file\"").run(mount.path)
            #expect(try Contents.text(of: mount.below + "/file") == "above\n")
            let again = try TruceCommand.attempt("mount", mount.path)
            try Wrong("mount", code: 1, "a\\x09tab").check(again, in: mount.path)
            try mount.unmount()
        }

        @Test("A directory whose path is not UTF-8 is refused with one sentence")
        func notUTF8() throws {
            let directory = try Lab.freshDirectory("bytes")
            let outcome = try Script(
                "cd \"$2\"; mkdir $'\\xff'; ln -s $'\\xff' link; exec \"$1\" mount link"
            ).attempt(try Lab.variable("TRUCE_BINARY"), directory)
            try Wrong("mount", code: 1, "not UTF-8").check(outcome, in: directory)
        }

        private static func unmount(_ place: String) {
            do { try TruceCommand.run("unmount", place) } catch { Issue.record(error) }
        }
    }
}
