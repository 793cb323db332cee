// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

/// If the kernel refuses passthrough for a file, the daemon itself reads and writes the file's data, and programs notice no
/// difference.
extension MountTests {
    @Suite struct PassthroughFallbackTests {
        /// The test run in the daemon's data mode checks this code completely, so here a part is enough.
        @Test(
            "On a stacked file system the daemon itself reads and writes the data, and calls have the usual results"
        )
        func withAStackedSourceTheDaemonReadsAndWritesTheData() throws {
            guard Self.isRoot else { return print("only root mounts an overlay: shown by the run as root") }
            guard try Lab.dataPath == .passthrough else {
                return print("no file is refused: shown by the run with passthrough")
            }
            try Overlay.with { plain in
                // The results must be the same as in the test run in the daemon's data mode. Only the long run compares them in
                // this test.
                let expected = Lab.isLong ? try PosixTests.answers(in: plain, below: plain) : [:]
                try Overlay.with { source in
                    let below = open(source, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                    defer { close(below) }
                    try Self.mounted(source) {
                        try Script("echo text >a; cat a; ln a b; mv b c; rm a c").run(at: source)
                        if Lab.isLong {
                            let found = try PosixTests.answers(
                                in: source, below: "/proc/\(getpid())/fd/\(below)")
                            PosixTests.compare(
                                found, with: expected, limits: try PosixTests.limits(for: .daemon))
                        }
                        let status = try Self.status(of: source)
                        #expect(status.options.dataPath == "daemon")
                        #expect(status.counters.read > 0 && status.counters.write > 0)
                        checkForcedSteps(status)
                    }
                }
            }
        }

        @Test("An overlay file system can be stacked on a mount")
        func anOverlayCanStackOnAMount() throws {
            guard Self.isRoot else { return print("only root mounts an overlay: shown by the run as root") }
            try MountedDirectory.with { mount in
                try Script("mkdir shown; echo below >shown/file; echo gone >shown/other").run(at: mount.path)
                try Overlay.with(lower: mount.path + "/shown") { overlay in
                    let seen = try Script("cat file; echo above >>file; rm other; cat file; ls").run(
                        at: overlay)
                    #expect(seen.text == "below\nbelow\nabove\nfile\n")
                }
                #expect(try Script("cat shown/*").run(at: mount.path).text == "below\ngone\n")
                try mount.checkDataPath()
                checkForcedSteps(try mount.status())
            }
        }

        @Test(
            "In a user's mount the daemon itself reads and writes the data, also of files that it may not open again"
        )
        func inAUsersMountTheDaemonReadsAndWritesTheData() throws {
            guard Self.isRoot else {
                return print("/dev/fuse is opened for all by root: shown by the run as root")
            }
            let directory = try Lab.freshDirectory("users")
            let outcome = try Script(
                """
                chown 65534:65534 "$2"
                exec unshare --mount --propagation=private bash -c '
                    mount -t tmpfs none /dev
                    mknod -m 666 /dev/null c 1 3
                    mknod -m 666 /dev/fuse c 10 229
                    exec setpriv --reuid=65534 --regid=65534 --clear-groups bash -euc "$3" bash "$1" "$2"' \\
                    bash "$1" "$2" '
                mkdir "$2/source" "$2/run"
                cd "$2/source"
                export XDG_RUNTIME_DIR=$2/run
                ulimit -n 256
                "$1" mount "$2/source" -o data=auto >"$2/log"
                cd "$2/source"
                trap "cd /; $1 unmount $2/source" EXIT
                (umask 222; echo made >unwritable)
                exec 6<>held
                echo before >&6
                touch file{1..400}
                cat file*
                chmod 0 held
                cat file*
                echo after >&6
                exec 6>&-
                chmod 600 held
                cat unwritable held | tr "\n" " "
                printf "%2999999s\\n" x >one
                cp one two
                exec 3<one 4<>one 5>>two
                echo end >&5
                cmp --bytes=3000000 one two
                tail -n 1 two
                "$1" status --json .
                exec 3<&- 4>&- 5>&-'
                """
            ).run(try Lab.variable("TRUCE_BINARY"), directory)
            let lines = outcome.text.split(separator: "\n", maxSplits: 1).map(String.init)
            try #require(lines.count == 2, "\(outcome.text)\(outcome.errorText)")
            // A program that has a file open can continue to use the file, even if no program may open the file again.
            #expect(lines[0] == "made before after end")
            // The last line of the output is printed by `truce unmount`.
            let end = try #require(lines[1].lastIndex(of: "}"))
            let status = try MountStatus(json: Array(lines[1][...end].utf8))
            #expect(status.options.dataPath == "daemon")
            #expect(status.counters.read > 0 && status.counters.write > 0)
            checkForcedSteps(status)
        }

        /// Mounts Truce over a directory that is a separate file system.
        private static func mounted(_ source: String, _ body: () throws -> Void) throws {
            try TruceCommand.run("mount", source, "-o", "allow_other")
            do {
                try body()
                try TruceCommand.run("unmount", source)
            } catch {
                _ = try TruceCommand.attempt("unmount", "--lazy", source)
                throw error
            }
        }

        private static func status(of source: String) throws -> MountStatus {
            try MountStatus(json: try TruceCommand.run("status", "--json", source).output)
        }

        private static var isRoot: Bool { geteuid() == 0 }
    }
}

/// An overlay, which is a file system on top of another.
private enum Overlay {
    static func with(lower: String? = nil, _ body: (String) throws -> Void) throws {
        let place = try Lab.freshDirectory("overlay")
        try Script("cd \"$1\"; mkdir lower upper work merged").run(place)
        let layers = "lowerdir=\(lower ?? place + "/lower"),upperdir=\(place)/upper,workdir=\(place)/work"
        try Program("mount").run("-t", "overlay", "-o", layers, "overlay", place + "/merged")
        do {
            try body(place + "/merged")
        } catch {
            _ = try Program("umount").attempt("--lazy", place + "/merged")
            throw error
        }
        try Program("umount").run(place + "/merged")
    }
}
