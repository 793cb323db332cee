// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

/// Invalid command lines print one sentence on standard error and end with the documented exit code.
extension MountTests {
    @Suite struct CommandLineErrorTests {
        @Test(
            "An invalid command line is refused with one sentence and its exit code",
            arguments: [
                WrongCommandLine("mount /none/such", code: 3, "/none/such"),
                WrongCommandLine("mount DIRECTORY/file", code: 1, "not a directory"),
                WrongCommandLine("mount DIRECTORY DIRECTORY/none", code: 3, "DIRECTORY/none"),
                WrongCommandLine("mount DIRECTORY DIRECTORY/file", code: 1, "not a directory"),
                WrongCommandLine("mount DIRECTORY -o colour=blue", code: 2, "colour"),
                WrongCommandLine("mount DIRECTORY -o wait=soon", code: 2, "wait"),
                WrongCommandLine("mount DIRECTORY -o hold=-1s", code: 2, "hold"),
                WrongCommandLine("mount DIRECTORY -o policy=perhaps", code: 2, "policy"),
                WrongCommandLine("mount DIRECTORY -o data=magic", code: 2, "data"),
                WrongCommandLine("mount DIRECTORY -o", code: 2, "-o"),
                WrongCommandLine("mount DIRECTORY --sideways", code: 2, "--sideways"),
                WrongCommandLine("mount", code: 2, "source"),
                WrongCommandLine("mount DIRECTORY DIRECTORY DIRECTORY", code: 2, "DIRECTORY"),
                WrongCommandLine("unmount DIRECTORY", code: 3, "DIRECTORY"),
                WrongCommandLine("unmount /none/such", code: 3, "/none/such"),
                WrongCommandLine("unmount", code: 2, "directory"),
                WrongCommandLine("status --json DIRECTORY", code: 3, "DIRECTORY"),
                WrongCommandLine("status /none/such", code: 3, "/none/such"),
                WrongCommandLine("versions DIRECTORY", code: 3, "DIRECTORY"),
                WrongCommandLine("versions", code: 2, "path"),
                WrongCommandLine("dance", code: 2, "dance"),
                WrongCommandLine("--loud", code: 2, "--loud"),
            ])
        func invalidCommandLinesAreRefused(_ wrong: WrongCommandLine) throws {
            let directory = try Lab.freshDirectory("wrong")
            try FileContents.write("a file\n", to: directory + "/file")
            try wrong.check(try wrong.run(in: directory), in: directory)
            #expect(try !MountedDirectory.isMounted(directory))
        }

        @Test("A mounted directory cannot be mounted again, and neither can a directory in it")
        func aMountedDirectoryIsNotMountedTwice() throws {
            try MountedDirectory.with(prepare: { try Program("mkdir").run($0 + "/inside") }) { mount in
                let again = try TruceCommand.attempt("mount", mount.path)
                try WrongCommandLine("mount", code: 1, "already mounted").check(again, in: mount.path)
                let inside = try TruceCommand.attempt("mount", mount.path + "/inside")
                try WrongCommandLine("mount", code: 1, "inside").check(inside, in: mount.path)
                let unmount = try TruceCommand.attempt("unmount", mount.path + "/inside")
                try WrongCommandLine("unmount", code: 3, "inside").check(unmount, in: mount.path)
                let kept = try TruceCommand.attempt(
                    "versions", mount.path, "restore", "none", mount.path + "/to")
                #expect(kept.ending == .exited(3) || kept.ending == .exited(2), "\(kept.errorText)")
                checkForcedSteps(try mount.status())
            }
        }

        @Test("An unmount that fails because the mount is busy names the programs that use the mount")
        func aFailedUnmountNamesTheProgramsThatUseTheMount() throws {
            try MountedDirectory.with(prepare: { try FileContents.write("x", to: $0 + "/file") }) { mount in
                let actor = try ScriptedProcess()
                try actor.must("open", "h", mount.path + "/file", "O_RDONLY")
                let outcome = try TruceCommand.attempt("unmount", mount.path)
                try WrongCommandLine("unmount", code: 1, "\(actor.pid)").check(
                    outcome, in: mount.path, lines: 1...20)
                #expect(try MountedDirectory.isMounted(mount.path))
                try actor.must("close", "h")
            }
        }

        @Test("Without /dev/fuse a mount is refused with one sentence")
        func withoutDevFuseAMountIsRefused() throws {
            guard Self.isRoot else { return print("only root can hide a device: shown by the run as root") }
            let directory = try Lab.freshDirectory("wrong")
            let outcome = try Self.withoutDevice.attempt(try Lab.variable("TRUCE_BINARY"), directory)
            try WrongCommandLine("mount", code: 1, "/dev/fuse").check(outcome, in: directory)
        }

        @Test("Without permission for /dev/fuse or the directory, a mount is refused with one sentence")
        func withoutPermissionAMountIsRefused() throws {
            guard Self.isRoot else { return print("only root can act as others: shown by the run as root") }
            let directory = try Lab.freshDirectory("wrong")
            let device = try Self.asOther.attempt(try Lab.variable("TRUCE_BINARY"), directory, "600")
            try WrongCommandLine("mount", code: 1, "/dev/fuse").check(device, in: directory)
            try Program("chmod").run("700", directory)
            let closed = try Self.asOther.attempt(try Lab.variable("TRUCE_BINARY"), directory, "666")
            try WrongCommandLine("mount", code: 1, "permission").check(closed, in: directory)
            #expect(closed.errorText.contains(directory))
        }

        @Test("A user can neither unmount another user's mount nor get its status")
        func aUserCanNeitherUnmountNorInspectAnotherUsersMount() throws {
            guard Self.isRoot else { return print("only root can act as others: shown by the run as root") }
            let asOther = Script(
                """
                exec setpriv --reuid=12345 --regid=12345 --clear-groups "$1" "$2" "$3"
                """)
            try MountedDirectory.with("allow_other") { mount in
                for words in ["unmount", "status", "ps"] {
                    let outcome = try asOther.attempt(try Lab.variable("TRUCE_BINARY"), words, mount.path)
                    try WrongCommandLine(words, code: 6, "user").check(outcome, in: mount.path)
                }
                // Every user may list preserved versions, but sees only versions of files that the user may read.
                let kept = try asOther.attempt(try Lab.variable("TRUCE_BINARY"), "versions", mount.path)
                #expect(try kept.requireSuccess().text.isEmpty)
                #expect(try MountedDirectory.isMounted(mount.path))
            }
        }

        private static var isRoot: Bool { geteuid() == 0 }

        /// A script that runs in its own mount namespace. The /dev of this namespace contains only the devices that every
        /// program needs.
        private static let withoutDevice = Script(
            """
            exec unshare --mount --propagation=private bash -c '
                mount -t tmpfs none /dev
                mknod -m 666 /dev/null c 1 3
                exec "$1" mount "$2"' bash "$1" "$2"
            """)

        /// A script that runs as another user. `$3` is the mode of the /dev/fuse in its mount namespace.
        private static let asOther = Script(
            """
            exec unshare --mount --propagation=private bash -c '
                mount -t tmpfs none /dev
                mknod -m 666 /dev/null c 1 3
                mknod -m 600 /dev/fuse c 10 229
                chmod "$3" /dev/fuse
                exec setpriv --reuid=12345 --regid=12345 --clear-groups "$1" mount "$2"' bash "$1" "$2" "$3"
            """)
    }
}

/// A command line, its exit code, and a word of the sentence that explains the error.
struct WrongCommandLine: Sendable, CustomTestStringConvertible {
    let words: String
    let code: Int32
    let explanation: String

    init(_ words: String, code: Int32, _ explanation: String) {
        self.words = words
        self.code = code
        self.explanation = explanation
    }

    var testDescription: String { "truce \(words)" }

    func run(in directory: String) throws -> ProgramResult {
        let arguments = words.replacing("DIRECTORY", with: directory)
        return try Script("exec \"$1\" $2").attempt(try Lab.variable("TRUCE_BINARY"), arguments)
    }

    func check(_ outcome: ProgramResult, in directory: String, lines: ClosedRange<Int> = 1...1) throws {
        print("\(testDescription): \(outcome.errorText)", terminator: "")
        #expect(outcome.ending == .exited(code), "\(words): \(outcome.errorText)")
        let said = explanation.replacing("DIRECTORY", with: directory)
        #expect(outcome.errorText.lowercased().contains(said.lowercased()), "\(words): \(outcome.errorText)")
        // If the words of the command line are wrong, the usage may follow the sentence.
        let sentence = outcome.errorText.split(separator: "\n").filter {
            !$0.hasPrefix("Usage:") && !$0.hasPrefix("  ")
        }
        #expect(lines.contains(sentence.count), "\(words): \(outcome.errorText)")
    }
}
