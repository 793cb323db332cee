// SPDX-License-Identifier: Apache-2.0
import ControlClient
import LinuxSystem
import Testing
import truce

/// Checks the arguments of a mount helper. mount(8), "External helpers": `/sbin/mount.suffix spec dir [-sfnv] [-N namespace]
/// [-o options] [-t type.subtype]`.
struct MountProgramTests {
    static func line(_ change: (inout MountHelperArguments) -> Void) throws -> MountHelperArguments {
        var line = try MountHelperArguments(parsing: ["/a", "/b"])
        change(&line)
        return line
    }

    @Test(
        "the argument forms of mount(8) and of users are parsed as the same source and directory",
        arguments: [
            "/a /b", "-n /a /b", "/a /b -n", "/a /b -t fuse.truce", "-ttruce /a /b", "-nn -- /a /b",
        ])
    func theArgumentFormsOfMount8AndOfUsersAreParsedEqually(words: String) throws {
        #expect(try MountHelperArguments(parsing: Self.words(words)) == Self.line { _ in })
    }

    @Test(
        "flags may be joined or separate, and may stand anywhere among the arguments",
        arguments: [
            "/a /b -s -f -n -v -o rw,hold=2s -N /proc/1/ns/mnt", "-sfv -o rw,hold=2s /a -N /proc/1/ns/mnt /b",
            "/a /b -sfvorw,hold=2s -N/proc/1/ns/mnt",
        ])
    func flagsMayBeJoinedAndStandAnywhere(words: String) throws {
        let expected = try Self.line { line in
            (line.isSloppy, line.isFake, line.isVerbose) = (true, true, true)
            line.options = ["rw,hold=2s"]
            line.namespace = "/proc/1/ns/mnt"
        }
        #expect(try MountHelperArguments(parsing: Self.words(words)) == expected)
    }

    @Test("relative paths, and paths with spaces or dashes, are not changed")
    func pathsWithSpacesAndDashesStayUnchanged() throws {
        let line = try MountHelperArguments(parsing: ["my documents", "/a place", "-o", "ro", "-o", "wait=1"])
        #expect(line.source == "my documents")
        #expect(line.directory == "/a place")
        #expect(line.options == ["ro", "wait=1"])
        #expect(try MountHelperArguments(parsing: ["--", "-a", "-b"]).source == "-a")
        #expect(try MountHelperArguments(parsing: ["-", "/b"]).source == "-")
    }

    @Test("-h needs no source and no directory")
    func theHelpOptionNeedsNoSourceAndNoDirectory() throws {
        #expect(try MountHelperArguments(parsing: ["-h"]).wantsHelp)
    }

    @Test(
        "the error for invalid arguments names the argument that is invalid",
        arguments: [
            ("", "SOURCE DIR"), ("/a", "SOURCE DIR"), ("/a /b /c", "SOURCE DIR"), ("/a /b -x", "'-x'"),
            ("/a /b --verbose", "'--'"), ("/a /b -o", "'-o'"), ("/a /b -N", "'-N'"), ("/a /b -vt", "'-t'"),
            ("/a /b -t ext4", "'ext4'"), ("/a /b -t fuse", "'fuse'"),
        ])
    func theErrorNamesTheArgumentThatIsInvalid(words: String, mentioned: String) {
        let failure = #expect(throws: CommandFailure.self) {
            try MountHelperArguments(parsing: Self.words(words))
        }
        #expect(failure?.status == .usage)
        #expect(failure?.message.contains(mentioned) == true, "\(failure?.message ?? "")")
    }

    @Test(
        "each error gets its exit code of mount(8): 1 wrong call or rights, 2 system error, 32 mount failure")
    func errorsGetTheExitCodesOfMount8() {
        let codes: [(any Error, MountHelperStatus)] = [
            (CommandFailure(.usage, ""), .wrongCall), (CommandFailure(.denied, ""), .wrongCall),
            (CommandFailure(.failed, ""), .mountFailed), (CommandFailure(.notFound, ""), .mountFailed),
            (CommandFailure(.timedOut, ""), .mountFailed), (Errno.noAccess, .systemError),
            (CancellationError(), .internalError),
        ]
        for (error, status) in codes { #expect(MountHelperStatus(of: error) == status) }
        #expect(
            [MountHelperStatus.done, .wrongCall, .systemError, .internalError, .interrupted, .mountFailed]
                .map(\.rawValue) == [0, 1, 2, 4, 8, 32])
    }

    private static func words(_ text: String) -> [String] { text.split(separator: " ").map(String.init) }
}
