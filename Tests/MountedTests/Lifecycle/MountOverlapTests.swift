// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// Checks mounts over, in and beside other mounts. A mount that would show a file twice is refused and leaves nothing.
    @Suite struct MountOverlapTests {
        /// For each case: the words of a first mount, the words of a second mount, and the reason for which it is refused. The
        /// directory has `docs/inner`, `place/inner`, `elsewhere` and `other`.
        static let refusals: [(first: String, second: String, says: String)] = [
            ("docs", "docs", "already mounted by truce"),
            ("docs", "docs elsewhere", "inside the truce mount at 'DIRECTORY/docs'"),
            ("docs", "docs/inner", "inside the truce mount at 'DIRECTORY/docs'"),
            ("docs place", "docs", "already mounted by truce by pid PID at 'DIRECTORY/place'"),
            ("docs place", "docs elsewhere", "already mounted by truce by pid PID at 'DIRECTORY/place'"),
            ("docs place", "place", "already mounted by truce by pid PID"),
            ("docs place", "other place", "already mounted by truce by pid PID"),
            ("docs place", "place elsewhere", "inside the truce mount at 'DIRECTORY/place'"),
            ("docs place", "place/inner elsewhere", "inside the truce mount at 'DIRECTORY/place'"),
            (
                "docs place", "docs/inner",
                "inside 'DIRECTORY/docs', which truce has mounted at 'DIRECTORY/place'"
            ),
            ("docs place", "docs/inner elsewhere", "inside 'DIRECTORY/docs', which truce has mounted"),
            ("docs place", "other docs/inner", "inside 'DIRECTORY/docs', which truce has mounted"),
            ("docs/inner elsewhere", "docs", "contains 'DIRECTORY/docs/inner', which truce has mounted"),
            ("docs/inner", "docs", "contains 'DIRECTORY/docs/inner', which truce has mounted"),
            ("docs/inner", "docs place", "contains 'DIRECTORY/docs/inner', which truce has mounted"),
            ("other place/inner", "place", "contains the truce mount at 'DIRECTORY/place/inner'"),
            ("other elsewhere", "docs docs/inner", "is inside 'DIRECTORY/docs', which it is to show"),
        ]

        @Test(
            "A mount that would show a mounted file a second time is refused with one sentence",
            arguments: refusals)
        func aMountThatWouldShowAMountedFileAgainIsRefused(
            _ refusal: (first: String, second: String, says: String)
        ) throws {
            let directory = try Self.directory()
            let first = try Self.mount(refusal.first, in: directory)
            let place = directory + "/" + first
            defer { Self.unmount(place) }
            let pid = try MountStatus(json: try TruceCommand.run("status", "--json", place).output).pid
            let before = try Self.whatIsThere.run(directory).text
            let outcome = try Self.mounting.attempt(
                try Lab.variable("TRUCE_BINARY"), directory, refusal.second)
            let says = refusal.says.replacing("PID", with: "\(pid)")
            try WrongCommandLine("mount \(refusal.second)", code: 1, says).check(outcome, in: directory)
            #expect(try Self.whatIsThere.run(directory).text == before)
        }

        @Test("A dead mount does not prevent a mount of another directory")
        func aDeadMountDoesNotPreventAMountOfAnotherDirectory() throws {
            let directory = try Self.directory()
            _ = try Self.mount("docs place", in: directory)
            let place = directory + "/place"
            let pid = try MountStatus(json: try TruceCommand.run("status", "--json", place).output).pid
            kill(pid, SIGKILL)
            try eventually(within: .seconds(10), "the end of daemon \(pid)") {
                !MountedDirectory.isAlive(pid)
            }
            _ = try Self.mount("docs/inner", in: directory)
            Self.unmount(directory + "/docs/inner")
            Self.unmount(place)
        }

        @Test(
            "If several mounts of one directory begin at the same time, exactly one succeeds",
            arguments: [false, true])
        func exactlyOneOfSeveralConcurrentMountsOfADirectorySucceeds(isElsewhere: Bool) throws {
            let directory = try Self.directory()
            let places = isElsewhere ? ["place", "elsewhere"] : ["docs", "docs"]
            for _ in 0..<5 {
                let attempts = try (places + places).map {
                    try TruceCommand.start("mount", directory + "/docs", directory + "/" + $0)
                }
                let outcomes = try attempts.map { try $0.wait(within: .seconds(30)) }
                let refused = outcomes.filter { !$0.isSuccess }
                #expect(refused.count == 3, "\(outcomes.map(\.errorText))")
                for outcome in refused {
                    try WrongCommandLine("mount", code: 1, "already mounted by truce").check(
                        outcome, in: directory)
                }
                let mounted = try Set(places).filter { try MountedDirectory.isMounted(directory + "/" + $0) }
                #expect(mounted.count == 1)
                for place in mounted { Self.unmount(directory + "/" + place) }
            }
        }

        @Test("Another user's lock on a directory does not prevent a mount of the directory")
        func anotherUsersLockDoesNotPreventAMount() throws {
            guard geteuid() == 0 else {
                return print("only root can act as others: shown by the run as root")
            }
            let directory = try Self.directory()
            // In the second case, the program that took the lock has ended, and its child process holds the lock.
            for holding in ["echo $$; read -r _", "sleep 1000 >&- & echo $!"] {
                let stranger = try Script(
                    """
                    exec setpriv --reuid=12345 --regid=12345 --clear-groups bash -c '
                        exec 9<"$1"; flock --nonblock 9; \(holding)' bash "$1"
                    """
                ).start(directory + "/docs", input: .keyboard)
                try eventually(within: .seconds(10), "the lock: \(stranger.errorText)") {
                    stranger.text.hasSuffix("\n")
                }
                let holder = try #require(Int32(stranger.text.dropLast()))
                _ = try Self.mount("docs", in: directory)
                Self.unmount(directory + "/docs")
                #expect(kill(holder, SIGKILL) == 0, "the lock was not held to the end")
                stranger.endInput()
                _ = try stranger.wait(within: .seconds(10))
            }
        }

        @Test("The unmount of a mount that contains another mount fails and names the inner mount")
        func aMountThatContainsAnotherMountStaysMounted() throws {
            guard geteuid() == 0 else { return print("only root can mount this: shown by the run as root") }
            try MountedDirectory.with(prepare: { try Program("mkdir").run($0 + "/inside") }) { mount in
                try Program("mount").run("-t", "tmpfs", "none", mount.path + "/inside")
                let outcome = try TruceCommand.attempt("unmount", mount.path)
                try Program("umount").run(mount.path + "/inside")
                let says = "'\(mount.path)/inside' is mounted inside it"
                try WrongCommandLine("unmount", code: 1, says).check(outcome, in: mount.path)
                checkForcedSteps(try mount.status())
            }
        }

        private static func directory() throws -> String {
            let directory = try Lab.freshDirectory("among")
            try Script("cd \"$1\"; mkdir -p docs/inner place/inner elsewhere other").run(directory)
            return directory
        }

        /// Mounts with the given words, and returns the mountpoint.
        private static func mount(_ words: String, in directory: String) throws -> String {
            try mounting.run(try Lab.variable("TRUCE_BINARY"), directory, words)
            return words.split(separator: " ").last.map { String($0) } ?? words
        }

        private static func unmount(_ place: String) {
            do { try TruceCommand.run("unmount", place) } catch { Issue.record(error) }
        }

        private static let mounting = Script("cd \"$2\"; exec \"$1\" mount $3")

        /// A script that lists all names below the directory, the daemons and the mounts.
        private static let whatIsThere = Script(
            """
            cd "$1"
            find . -xdev | sort
            findmnt --noheadings --list --types fuse.truce --output TARGET
            """)
    }
}
