// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// Checks `umount D && mount D`: the new mount waits until the ending daemon has ended, and its error names any other
    /// obstacle.
    @Suite struct RemountTests {
        /// The time for which a new mount waits for an ending daemon.
        private static let patience = Duration.seconds(2)
        private static let margin = Duration.seconds(10)

        @Test("A mount waits until the daemon of the former mount has ended", arguments: [false, true])
        func aMountWaitsUntilTheDaemonOfTheFormerMountHasEnded(isElsewhere: Bool) throws {
            let mount = try MountedDirectory()
            defer { mount.abandon() }
            try mount.mount()
            let former = try mount.daemonPID
            let place = isElsewhere ? try Lab.freshDirectory("place") : mount.path
            kill(former, SIGSTOP)
            defer { kill(former, SIGCONT) }
            try Self.unmount(mount.path)
            let next = try TruceCommand.start("mount", mount.path, place)
            try Self.awaitWaiter(for: mount.below, next)
            kill(former, SIGCONT)
            try next.wait(within: Self.patience + Self.margin).requireSuccess()
            let status = try MountStatus(json: TruceCommand.run("status", "--json", place).output)
            #expect(status.pid != former)
            try TruceCommand.run("unmount", place)
        }

        @Test(
            "If the former daemon does not end within 2 s, a new mount fails and names that daemon; a later mount succeeds"
        )
        func aMountFailsAndNamesAFormerDaemonThatDoesNotEnd() throws {
            let mount = try MountedDirectory()
            defer { mount.abandon() }
            try mount.mount()
            let former = try mount.daemonPID
            kill(former, SIGSTOP)
            defer { kill(former, SIGCONT) }
            try Self.unmount(mount.path)
            let (refused, took) = try timed { try TruceCommand.attempt("mount", mount.path) }
            print("refused after \(took.milliseconds) ms")
            let says = "by pid \(former), but its mount is not visible, and the daemon did not end within 2 s"
            try WrongCommandLine("mount", code: 1, says).check(refused, in: mount.path)
            #expect(took < Self.patience + Self.margin)
            kill(former, SIGCONT)
            try mount.mount()
            try mount.unmount()
        }

        @Test(
            "A mount waits for the lock of the store, or fails and names the lock's holder",
            arguments: [false, true])
        func aMountWaitsForTheStoreLock(isReleased: Bool) throws {
            let mount = try MountedDirectory()
            defer { mount.abandon() }
            try mount.mount()
            try mount.unmount()
            let store = mount.below + "/.truce/store/kept.log"
            let holder = try Script("exec flock \"$1\" bash -c \"echo held; read -r _\"").start(
                store, input: .keyboard)
            try eventually(within: .seconds(10), "the lock: \(holder.errorText)") { holder.text == "held\n" }
            let next = try TruceCommand.start("mount", mount.path)
            try Self.awaitWaiter(for: store, next)
            if isReleased { holder.endInput() }
            let outcome = try next.wait(within: Self.patience + Self.margin)
            if isReleased {
                try outcome.requireSuccess()
                try TruceCommand.run("unmount", mount.path)
            } else {
                let says = "already mounted by truce: its store is in use by pid \(holder.pid)"
                try WrongCommandLine("mount", code: 1, says).check(outcome, in: mount.path)
            }
        }

        @Test(
            "A mounted source cannot be mounted again under a new name; another directory under its old name can"
        )
        func aRenamedMountedSourceIsRefused() throws {
            let directory = try Lab.freshDirectory("renamed")
            try Script("mkdir \"$1/docs\" \"$1/place\" \"$1/other\"").run(directory)
            let (place, other) = (directory + "/place", directory + "/other")
            try TruceCommand.run("mount", directory + "/docs", place)
            let pid = try MountStatus(json: TruceCommand.run("status", "--json", place).output).pid
            try Script("mv \"$1/docs\" \"$1/renamed\"; mkdir \"$1/docs\"").run(directory)
            let refused = try TruceCommand.attempt("mount", directory + "/renamed", other)
            try WrongCommandLine("mount", code: 1, "by truce by pid \(pid) at '\(directory)/place'").check(
                refused, in: directory)
            // The old name now leads to a different directory.
            try TruceCommand.run("mount", directory + "/docs", other)
            for mounted in [other, place] { try TruceCommand.run("unmount", mounted) }
        }

        @Test("mount(8) right after umount succeeds twenty times in a row")
        func aMountSucceedsRightAfterEachUnmount() throws {
            guard geteuid() == 0 else { return print("mount(8) is root's: shown by the run as root") }
            let directory = try Lab.freshDirectory("row")
            try Script(
                """
                exec unshare --mount --propagation=private bash -euc '
                    mount -t tmpfs none /sbin
                    ln -s "$1" /sbin/mount.fuse.truce
                    mount -t fuse.truce "$2" "$2"
                    for round in {1..20}; do
                        echo "$round" >"$2/file"
                        umount "$2" && mount -t fuse.truce "$2" "$2"
                    done
                    umount "$2"' bash "$1" "$2"
                """
            ).run(try Lab.variable("TRUCE_BINARY"), directory)
        }

        /// Unmounts by the system call. umount(8) would send the mount a request that a stopped daemon does not answer.
        private static func unmount(_ path: String) throws {
            try Program("fusermount3").run("-u", path)
        }

        /// Waits until a process waits for the lock of a file. In `/proc/locks`, the line of a waiting process has an arrow:
        /// `1: -> FLOCK ADVISORY  WRITE 1234 08:01:5678 0 EOF`
        private static func awaitWaiter(for path: String, _ program: RunningProgram) throws {
            let inode = try Program("stat").run("--dereference", "--format=%i", path).text.dropLast()
            try eventually(within: .seconds(10), "a mount that waits: \(program.errorText)") {
                if program.hasEnded { throw TestFailure("the mount did not wait: \(program.errorText)") }
                return try FileContents.text(of: "/proc/locks").split(separator: "\n").contains { line in
                    line.contains("-> FLOCK") && line.contains(":\(inode) ")
                }
            }
        }
    }
}
