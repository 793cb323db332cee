// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// With passthrough the kernel itself reads and writes the contents of files, and the daemon never gets the contents.
    @Suite struct DataPathTests {
        @Test(
            "64 MiB of reads and writes reach the daemon without passthrough, and do not reach it with passthrough"
        )
        func withPassthroughNoReadOrWrittenDataReachesTheDaemon() throws {
            try MountedDirectory.with(prepare: { directory in
                try Script("head -c 67108864 /dev/urandom > \"$1/original\"").run(directory)
            }) { mount in
                try Program("dd").run("if=original", "of=copy", "bs=1M", "status=none", at: mount.path)
                let sums = try Script("sha256sum < original; sha256sum < copy").run(at: mount.path).text
                let below = try Script("sha256sum < \"$1/copy\"").run(mount.below).text
                let lines = sums.split(separator: "\n")
                #expect(lines.count == 2 && lines[0] == lines[1])
                #expect(lines.first.map(String.init) == below.split(separator: "\n").first.map(String.init))
                let status = try mount.status()
                print(
                    "data by \(status.options.dataPath): READ \(status.counters.read), WRITE \(status.counters.write)"
                )
                switch try Lab.dataPath {
                case .passthrough:
                    #expect(status.counters.read == 0)
                    #expect(status.counters.write == 0)
                case .daemon:
                    #expect(status.counters.read > 0)
                    #expect(status.counters.write > 0)
                }
                try mount.checkDataPath()
                checkForcedSteps(status)
            }
        }

        @Test("Disk space that is reserved for root cannot be used by other users through the mount")
        func rootReservedSpaceStaysReserved() throws {
            guard geteuid() == 0 else { return print("only root mounts: shown by the run as root") }
            try LoopFilesystem.with(
                ["allow_other"], making: "-m 50",
                prepare: { _ = try Program("chmod").run("777", $0.path, $0.path + "/..") }
            ) { mount in
                let fill = Script(
                    """
                    truncate --size=0 "$1"/file
                    chown 12345:12345 "$1"/file
                    exec setpriv --reuid=12345 --regid=12345 --clear-groups bash -c '
                        head -c 1G /dev/zero >>"$0"/file
                        stat --format=%s "$0"/file' "$1"
                    """)
                let sizes = try [mount.path + "/..", mount.path].map { directory in
                    let outcome = try fill.attempt(directory)
                    #expect(outcome.errorText.contains("No space left on device"), "\(outcome.errorText)")
                    try Program("rm").run(directory + "/file")
                    return try #require(Int(outcome.text.dropLast()))
                }
                print("room for others: \(sizes[0]) bytes, in the mount \(sizes[1])")
                #expect(abs(sizes[0] - sizes[1]) < 16 << 20)
            }
        }

        @Test("A file can be opened while its owner changes all the time")
        func aFileCanBeOpenedWhileItsOwnerChangesAllTheTime() throws {
            guard geteuid() == 0 else { return print("only root gives files away: shown by the run as root") }
            try MountedDirectory.with(prepare: { try FileContents.write("text", to: $0 + "/file") }) {
                mount in
                try Self.givingAway.run(mount.path + "/file")
                checkForcedSteps(try mount.status())
            }
        }

        /// A script that makes 60,000 opens. Meanwhile another process gives the file to two users in turn.
        private static let givingAway = Script(
            """
            exec python3 - "$1" <<'END'
            import os, sys
            opener = os.getpid()
            giver = os.fork()
            while giver == 0 and os.getppid() == opener:
                for user in 1001, 1002:
                    os.chown(sys.argv[1], user, -1)
            if giver:
                try:
                    for _ in range(60_000):
                        os.close(os.open(sys.argv[1], os.O_RDONLY))
                finally:
                    os.kill(giver, 9)
                    os.wait()
            END
            """)

        @Test("A change is noticed on a file system with timestamps in whole seconds")
        func aChangeIsNoticedOnAFileSystemWithOneSecondTimestamps() throws {
            guard geteuid() == 0 else { return print("only root mounts: shown by the run as root") }
            try LoopFilesystem.with(["wait=500ms,hold=60s,idle=60s"], making: "-I 128") { mount in
                let document = mount.path + "/document"
                let (holder, other) = (try ScriptedProcess(), try ScriptedProcess())
                // The next two writes nearly always happen in the same second. The daemon must notice the second write in any
                // case.
                try FileContents.write("old contents", to: mount.below + "/document")
                try holder.must("open", "h", document, "O_RDWR")
                try holder.must("write", "h", "new")
                try other.must("open", "o", document, "O_WRONLY|O_TRUNC")
                let restored = try Lab.freshDirectory("restored") + "/document"
                try mount.restore(try #require(try mount.kept("document").first?.id), to: restored)
                #expect(try FileContents.text(of: restored) == "new contents")
                checkForcedSteps(try mount.status(), except: [.proceeded])
            }
        }

        @Test(
            "Reading updates a file's access time as in the source",
            arguments: [("noatime", false), ("strictatime", true)])
        func readingUpdatesAccessTimeAsTheSourceDoes(option: String, moves: Bool) throws {
            guard geteuid() == 0 else {
                return print("only root mounts a source with \(option): shown by the run as root")
            }
            let furnish = Script(
                "echo text >\"$1\"/file; touch --time=access --date=@1000000000 \"$1\"/file")
            try LoopFilesystem.with(mounted: option, prepare: { _ = try furnish.run($0.path) }) { mount in
                try Program("cat").run(mount.path + "/file")
                let times = try [mount.path, mount.below].map {
                    try Program("stat").run("--format=%X", $0 + "/file").text
                }
                #expect((times[0] != "1000000000\n") == moves)
                #expect(times[0] == times[1])
            }
        }
    }
}
