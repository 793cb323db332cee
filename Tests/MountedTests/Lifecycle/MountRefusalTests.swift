// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// Checks that a refused mount leaves nothing, and which paths a mount accepts.
    @Suite struct MountRefusalTests {
        @Test(
            "A mount that is refused does not remove the dead mount of its source",
            arguments: ["file", "place"])
        func aRefusedMountDoesNotRemoveADeadMount(mountpoint: String) throws {
            let mount = try MountedDirectory()
            defer { mount.abandon() }
            let other = try Lab.freshDirectory("other")
            try Script("cd \"$1\"; touch file; mkdir place").run(other)
            try mount.mount()
            try mount.kill()
            try TruceCommand.run("mount", other + "/place")
            defer { Self.unmount(other + "/place") }
            let outcome = try TruceCommand.attempt("mount", mount.path, other + "/" + mountpoint)
            try WrongCommandLine("mount", code: 1, "\(other)/\(mountpoint)").check(outcome, in: mount.path)
            #expect(outcome.text.isEmpty, "\(outcome.text)")
            #expect(try MountTableText.has(mount.path))
            try mount.mount()
            try mount.unmount()
        }

        @Test("A dead mount is replaced only by a new mount of its own source")
        func onlyANewMountOfItsSourceReplacesADeadMount() throws {
            let (source, place) = (try Lab.freshDirectory("source"), try Lab.freshDirectory("place"))
            try Script("echo text >\"$1/file\"").run(source)
            try TruceCommand.run("mount", source, place)
            defer { Self.unmount(place) }
            let status = try TruceCommand.run("status", "--json", place).output
            kill(try JSONDecoder().decode(MountStatus.self, from: Data(status)).pid, SIGKILL)
            try eventually(within: .seconds(10), "the mount to be dead") {
                try TruceCommand.attempt("status", place).errorText.contains("is dead")
            }
            let again = "'truce mount \(source) \(place)'"
            #expect(try TruceCommand.attempt("status", place).errorText.contains(again))
            let outcome = try TruceCommand.attempt("mount", place)
            #expect(outcome.ending == .exited(1) && outcome.errorText.contains(again), "\(outcome.errorText)")
            #expect(try MountTableText.has(place))
            try TruceCommand.run("mount", source, place)
            #expect(try FileContents.text(of: place + "/file") == "text\n")
        }

        @Test("A directory that contains the daemons' sockets cannot be mounted")
        func theDirectoryOfTheDaemonsSocketsIsNotMounted() throws {
            guard geteuid() == 0 else { return }
            for place in ["/run", "/"] {
                let outcome = try TruceCommand.attempt("mount", place)
                try WrongCommandLine("mount", code: 1, "'/run/truce'").check(outcome, in: place)
            }
        }

        @Test(
            "A directory with a control character in its path can be mounted, and messages escape the character"
        )
        func messagesEscapeAControlCharacterInTheMountedDirectorysPath() throws {
            let mount = try MountedDirectory(in: try Lab.freshDirectory("a\ttab"))
            defer { mount.abandon() }
            try mount.mount()
            try Script("echo above >\"$1/file\"").run(mount.path)
            #expect(try FileContents.text(of: mount.below + "/file") == "above\n")
            let again = try TruceCommand.attempt("mount", mount.path)
            try WrongCommandLine("mount", code: 1, "a\\x09tab").check(again, in: mount.path)
            try mount.unmount()
        }

        @Test("A directory whose path is not UTF-8 is refused with one sentence")
        func aNonUTF8PathIsRefused() throws {
            let directory = try Lab.freshDirectory("bytes")
            let outcome = try Script(
                "cd \"$2\"; mkdir $'\\xff'; ln -s $'\\xff' link; exec \"$1\" mount link"
            ).attempt(try Lab.variable("TRUCE_BINARY"), directory)
            try WrongCommandLine("mount", code: 1, "not UTF-8").check(outcome, in: directory)
        }

        private static func unmount(_ place: String) {
            do { try TruceCommand.run("unmount", place) } catch { Issue.record(error) }
        }
    }
}
