// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// On a machine that lacks a prerequisite, `truce mount` prints one sentence and leaves no mount, store or daemon. Each
    /// case runs in its own mount namespace.
    @Suite struct MissingPrerequisiteTests {
        enum Run: String, CaseIterable { case withoutBlocks, withoutInodes, readOnly }

        @Test(
            "If /run is full or read-only, the socket is made in another directory, and clients find the socket",
            arguments: Run.allCases)
        func theSocketIsMadeInAnotherDirectoryIfRunIsFull(state: Run) throws {
            guard Self.isRoot else { return }
            let directory = try Lab.freshDirectory("run")
            let outcome = try Self.fullRun.run(try Lab.variable("TRUCE_BINARY"), directory, state.rawValue)
            let lines = outcome.text.split(separator: "\n")
            // A socket needs an inode but no block, so it can be made on a full file system.
            let place = state == .withoutBlocks ? "/run/truce/" : "/tmp/truce-0/"
            #expect(lines.first?.hasPrefix(place) ?? false, "\(outcome.text)\(outcome.errorText)")
            #expect(lines.dropFirst() == ["no socket is left"])
        }

        @Test("If no directory has room for the socket, the mount is refused")
        func aMountIsRefusedIfNoDirectoryHasRoomForItsSocket() throws {
            guard Self.isRoot else { return }
            let directory = try Lab.freshDirectory("run")
            let outcome = try Self.fullEverywhere.attempt(try Lab.variable("TRUCE_BINARY"), directory)
            try WrongCommandLine("mount", code: 1, "no place for the control socket").check(
                outcome, in: directory)
            #expect(outcome.errorText.contains("/run/truce: No space left on device"))
            try Self.checkUntouched(directory)
        }

        @Test("A source without room for the store is not mounted")
        func aFullSourceIsNotMounted() throws {
            guard Self.isRoot else { return }
            try FailingFilesystem.with(.withoutInodes) { small in
                try small.fail()
                let outcome = try TruceCommand.attempt("mount", small.source)
                try WrongCommandLine("mount", code: 1, "has no room for the store").check(
                    outcome, in: small.source)
                #expect(access(small.base + "/.truce", F_OK) != 0)
                #expect(try !MountedDirectory.isMounted(small.source))
            }
            try FailingFilesystem.with(.withoutInodes, options: "wait=60s") { small in
                try TruceCommand.run("unmount", small.source)
                try small.fail()
                // The first mount makes the version store, so that it already exists when the room is used up.
                try TruceCommand.run("mount", small.source)
            }
        }

        @Test("A user's mount with allow_other is refused if fuse.conf lacks user_allow_other")
        func theOptionAllowOtherNeedsALineInFuseConf() throws {
            guard Self.isRoot else { return }
            let directory = try Self.usersDirectory()
            let outcome = try Self.asUser.attempt(
                try Lab.variable("TRUCE_BINARY"), directory, "mount --bind /dev/null /etc/fuse.conf",
                "allow_other")
            try WrongCommandLine("mount", code: 1, "'user_allow_other' in /etc/fuse.conf").check(
                outcome, in: directory)
            try Self.checkUntouched(directory)
        }

        @Test("A user's mount is refused if fusermount3 is missing or may not mount")
        func withoutFusermount3AUsersMountIsRefused() throws {
            guard Self.isRoot else { return }
            let directory = try Self.usersDirectory()
            let missing = try Self.asUser.attempt(
                try Lab.variable("TRUCE_BINARY"), directory, "mount --bind /dev/null /usr/bin/fusermount3",
                "wait=1s")
            try WrongCommandLine("mount", code: 1, "fusermount3 is missing").check(missing, in: directory)
            try Self.checkUntouched(directory)
            let powerless = try Self.asUser.attempt(
                try Lab.variable("TRUCE_BINARY"), directory,
                """
                cp /usr/bin/fusermount3 /dev/fusermount3
                mount --bind /dev/fusermount3 /usr/bin/fusermount3
                """, "wait=1s")
            let says = "Operation not permitted (fusermount3: mount failed: Operation not permitted)"
            try WrongCommandLine("mount", code: 1, says).check(powerless, in: directory)
            try Self.checkUntouched(directory)
        }

        /// Checks that there is no mount, no store and no daemon.
        private static func checkUntouched(_ directory: String) throws {
            #expect(try !MountedDirectory.isMounted(directory))
            #expect(try Program("ls").run("-A", directory).text.isEmpty)
            // The command line of a daemon ends with its directory.
            #expect(try !Program("pgrep").attempt("--full", "serve .* \(directory)$").isSuccess)
        }

        private static func usersDirectory() throws -> String {
            let directory = try Lab.freshDirectory("users")
            try Program("chown").run("65534:65534", directory)
            return directory
        }

        private static var isRoot: Bool {
            if geteuid() != 0 { print("only root can change what there is: shown by the run as root") }
            return geteuid() == 0
        }

        private static let fullRun = Script(
            """
            exec unshare --mount --propagation=private env --unset=XDG_RUNTIME_DIR bash -euc '
                case $3 in
                    withoutBlocks)
                        mount -t tmpfs -o size=4k none /run
                        head --bytes=8k /dev/zero >/run/filler 2>/dev/null || true
                        ;;
                    withoutInodes) mount -t tmpfs -o nr_inodes=1 none /run ;;
                    readOnly) mount -t tmpfs -o ro none /run ;;
                esac
                "$1" mount "$2" >/dev/null
                socket=$("$1" socket "$2")
                echo "$socket"
                "$1" status "$2" >/dev/null
                "$1" unmount "$2"
                [[ -e $socket ]] || echo "no socket is left"' bash "$1" "$2" "$3"
            """)

        /// A script that fills every file system. The script does not hide the contents of /tmp, because the programs under
        /// test can be there.
        private static let fullEverywhere = Script(
            """
            exec unshare --mount --propagation=private env --unset=XDG_RUNTIME_DIR bash -euc '
                mkdir -p -m 700 /tmp/truce-0
                for place in /run /tmp/truce-0; do mount -t tmpfs -o nr_inodes=1,mode=700 none "$place"; done
                exec "$1" mount "$2"' bash "$1" "$2"
            """)

        /// A script that runs as a user. `$3` removes a prerequisite, and `$4` is the value of -o.
        private static let asUser = Script(
            """
            exec unshare --mount --propagation=private bash -euc '
                mount -t tmpfs none /dev
                mknod -m 666 /dev/null c 1 3
                mknod -m 666 /dev/fuse c 10 229
                eval "$3"
                exec setpriv --reuid=65534 --regid=65534 --clear-groups "$1" mount "$2" -o "$4"' \\
                bash "$1" "$2" "$3" "$4"
            """)
    }
}
