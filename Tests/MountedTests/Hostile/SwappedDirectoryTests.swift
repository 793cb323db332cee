// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// Checks commands that follow a path while a user renames directories of this path.
    @Suite struct SwappedDirectoryTests {
        @Test(
            "A directory that was replaced after its check is not mounted, and no mount is left",
            arguments: ["directory", "link"])
        func aDirectoryThatWasReplacedAfterItsCheckIsNotMounted(successor: String) throws {
            // For a user other than root, fusermount3 makes the mount. It gets only a path, and checks only the owner of the
            // directory at this path.
            guard geteuid() == 0 || successor == "link" else { return }
            let place = try Lab.freshDirectory("swapped")
            defer { Self.unmountAll(below: place) }
            // `truce mount` starts its daemon with this command line, and with descriptors of the directories that it has
            // checked.
            let outcome = try Script(
                """
                cd "$1"
                mkdir wanted elsewhere
                exec 3<wanted 4<wanted 5> >(tr '\\0' '?' >said)
                mv wanted moved
                if [[ $2 == link ]]; then ln -s elsewhere wanted; else mkdir wanted; fi
                exec timeout 20 "$3" serve -o wait=1s -- "$1/wanted" "$1/wanted" >/dev/null 2>&1
                """
            ).attempt(place, successor, try Lab.variable("TRUCE_BINARY"), within: .seconds(30))
            #expect(outcome.ending == .exited(1))
            try eventually(within: .seconds(10), "the daemon's words") {
                try FileContents.text(of: place + "/said").contains("nothing is mounted there")
            }
            #expect(try Self.mounts(below: place) == [])
        }

        @Test(
            "An unmount of a busy mount without visible users is attempted again, and fails if the mount stays busy"
        )
        func theUnmountOfABrieflyBusyMountIsAttemptedAgain() throws {
            let mount = try MountedDirectory()
            defer { mount.abandon() }
            try FileContents.write("text\n", to: mount.path + "/file")
            try mount.mount()
            // A descriptor that is in transit between two processes appears in no process's list of open files.
            let program = try Program("python3").start(
                "-c", Self.sending, mount.path + "/file", input: .keyboard)
            try eventually(within: .seconds(20), "a file that is on its way\n\(program.errorText)") {
                program.text == "sent\n"
            }
            let refused = try TruceCommand.attempt("unmount", mount.path)
            let words =
                geteuid() == 0
                ? "is busy: nothing uses it any more; try again" : "no program that you may examine uses it"
            #expect(refused.ending == .exited(1))
            #expect(refused.errorText.contains(words), "\(refused.errorText)")

            let command = try TruceCommand.start("unmount", mount.path)
            program.endInput()
            try program.wait(within: .seconds(20)).requireSuccess()
            try command.wait(within: .seconds(20)).requireSuccess()
            #expect(try !MountedDirectory.isMounted(mount.path))
        }

        private static let sending = """
            import os, socket, sys
            one, other = socket.socketpair()
            file = os.open(sys.argv[1], os.O_RDONLY)
            socket.send_fds(one, [b"x"], [file])
            os.close(file)
            print("sent", flush=True)
            sys.stdin.read()
            """

        private static func mounts(below place: String) throws -> [Substring] {
            try FileContents.text(of: "/proc/self/mountinfo").split(separator: "\n").filter {
                $0.contains(" \(place)/")
            }
        }

        private static func unmountAll(below place: String) {
            do {
                for line in try mounts(below: place) {
                    let path = line.split(separator: " ")[4]
                    _ = try Program("fusermount3").attempt("-u", "-z", String(path))
                }
            } catch {
                print("what is mounted below \(place) stays: \(error)")
            }
        }
    }
}
