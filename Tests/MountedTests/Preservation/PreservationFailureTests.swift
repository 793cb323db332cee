// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

/// If no version can be preserved, no document is truncated, but names can still be removed. Also checks which users may see
/// versions.
extension MountTests {
    @Suite struct PreservationFailureTests {
        @Test("Without room for a copy, truncating opens get EBUSY, but removals and replacements go ahead")
        func withoutRoomForACopyATruncationFailsAndARemovalProceeds() throws {
            guard Self.isRoot else {
                return print("only root can fill a file system: shown by the run as root")
            }
            try SmallFilesystem.with("size=8m,nr_inodes=60") { small in
                // The file has 5 of 8 MiB, so a second copy has no room.
                try Script("head -c 5242880 /dev/zero >\"$1/one\"; cp \"$1/one\" \"$1/new\" || true").run(
                    small.source)
                try Script("truncate -s 4k \"$1/new\"; cp \"$1/new\" \"$1/two\"").run(small.source)
                try small.mount()
                let (holder, other) = (try ScriptedProcess(), try ScriptedProcess())
                try small.refuses(holder, other, "one", size: 5_242_880)
                try holder.must("open", "t", small.source + "/two", "O_WRONLY")
                try holder.must("write", "t", "x")
                // On this file system, a second name of a file needs an inode.
                try Script("i=0; while touch \"$1/filler-$i\" 2>/dev/null; do i=$((i + 1)); done").run(
                    small.source)
                try other.must("rename", small.source + "/new", small.source + "/two")
                try other.must("unlink", small.source + "/one")
                #expect(
                    small.log.split(separator: "\n").filter { $0.contains("could not be preserved") }.count
                        == 2,
                    "\(small.log)")
                #expect(try other.ask("read", small.source + "/one") == "ENOENT")
            }
        }

        @Test(
            "A file too large to be copied cannot be truncated, but its removal or replacement is preserved"
        )
        func aFileTooLargeToBeCopiedCannotBeTruncated() throws {
            guard Self.isRoot else {
                return print("only root can make a file system: shown by the run as root")
            }
            try SmallFilesystem.with("size=8m") { small in
                // The files are larger than `keep-max` and consist of holes.
                try Script("truncate -s 300M \"$1/one\" \"$1/two\"; echo new >\"$1/new\"").run(small.source)
                try small.mount()
                let (holder, other) = (try ScriptedProcess(), try ScriptedProcess())
                try small.refuses(holder, other, "one", size: 300 << 20)
                try holder.must("open", "t", small.source + "/two", "O_WRONLY")
                try holder.must("write", "t", "x")
                try other.must("rename", small.source + "/new", small.source + "/two")
                try other.must("unlink", small.source + "/one")
                let status = try small.status()
                #expect(status.counters.kept == 2, "\(status.journalText)")
            }
        }

        // fusermount3 needs a user with a name. User 65534 has a name on every system.
        @Test(
            "A version is listed and readable only if both its stored rights and the document's present rights allow it"
        )
        func aVersionIsReadableOnlyIfStoredAndPresentRightsAllowReading() throws {
            guard Self.isRoot else { return print("only root can act as others: shown by the run as root") }
            let directory = try Lab.freshDirectory("rights")
            try Program("chown").run("65534:65534", directory)
            let outcome = try Self.asUser.attempt(try Lab.variable("TRUCE_BINARY"), directory)
            #expect(
                outcome.text == """
                    0644 then 0644: 1 listed, 0 contents+
                    0000 then 0644: 1 listed, 6
                    0644 then 0000: 0 listed, 6

                    """, "\(outcome.text)\(outcome.errorText)")
            let isSuccess = outcome.isSuccess
            #expect(isSuccess, "\(outcome.errorText)")
        }

        private static var isRoot: Bool { geteuid() == 0 }

        /// A script in which a user mounts, in a mount namespace where all users may use /dev/fuse.
        private static let asUser = Script(
            """
            exec unshare --mount --propagation=private bash -c '
                mount -t tmpfs none /dev
                mknod -m 666 /dev/null c 1 3
                mknod -m 666 /dev/fuse c 10 229
                exec setpriv --reuid=65534 --regid=65534 --clear-groups bash -euc "$3" bash "$1" "$2"' \\
                bash "$1" "$2" '
            cd "$2"
            mkdir source restored
            mkfifo ready go
            exec 5<source
            "$1" mount source -o wait=500ms >restored/log
            trap "\\"$1\\" unmount source" EXIT
            # try TRUCE DIRECTORY OLD NEW: removes a file of mode OLD while a program writes it, and makes it anew with NEW.
            try() {
                echo -n contents >source/document
                (exec 4>>source/document; echo -n "+" >&4; echo >ready; read -r _ <go) &
                read -r _ <ready
                chmod "$3" source/document
                rm -f source/document
                touch source/document
                chmod "$4" source/document
                listed=$("$1" versions source/document | wc -l)
                # Read the id from the log of the store, because a version that may not be read is not listed.
                id=$(tail -n 1 /proc/$$/fd/5/.truce/store/kept.log | sed "s/.*\\"id\\":\\"\\([0-9a-f]*\\).*/\\1/")
                status=0
                "$1" versions source/document restore "$id" "restored/$id" 2>>restored/errors || status=$?
                [[ $status != 0 ]] || text=" $(cat "restored/$id")"
                echo "$3 then $4: $listed listed, $status${text-}"
                text=
                echo >go
                wait
                chmod 644 source/document
            }
            try "$1" "$2" 0644 0644
            try "$1" "$2" 0000 0644
            try "$1" "$2" 0644 0000'
            """)
    }
}

/// A file system of a few megabytes. Truce is mounted over it in the foreground, so that the test can read its log.
final class SmallFilesystem {
    let source: String
    private var daemon: RunningProgram?

    static func with(_ options: String, _ body: (SmallFilesystem) throws -> Void) throws {
        let small = SmallFilesystem(source: try Lab.freshDirectory("small"))
        try Program("mount").run("-t", "tmpfs", "-o", options, "none", small.source)
        do {
            try body(small)
            try TruceCommand.run("unmount", small.source)
        } catch {
            _ = try TruceCommand.attempt("unmount", "--lazy", small.source)
            _ = try Program("umount").attempt("--lazy", small.source)
            throw error
        }
        try Program("umount").run("--lazy", small.source)
    }

    init(source: String) { self.source = source }

    func mount(_ options: String...) throws {
        let data = try Lab.dataPath == .daemon ? "data=daemon" : "data=auto"
        let daemon = try TruceCommand.start(
            "mount", "-f", source, "-o",
            (["wait=300ms,hold=60s,idle=60s", data] + options).joined(separator: ","))
        self.daemon = daemon
        try eventually(within: .seconds(20), "a mount on \(source)\n\(daemon.errorText)") {
            if daemon.hasEnded { throw TestFailure("no mount: \(daemon.errorText)") }
            return !daemon.text.isEmpty
        }
    }

    var log: String { daemon?.errorText ?? "" }
    func status() throws -> MountStatus {
        try MountStatus(json: try TruceCommand.run("status", "--json", source).output)
    }

    /// Checks that no other program may truncate or overwrite a document with changes that cannot be preserved.
    func refuses(_ holder: ScriptedProcess, _ other: ScriptedProcess, _ name: String, size: Int) throws {
        let document = source + "/" + name
        try holder.must("open", "h", document, "O_WRONLY")
        try holder.must("write", "h", "x")
        #expect(try other.ask("open", "w", document, "O_WRONLY|O_TRUNC") == "EBUSY")
        #expect(try other.ask("open", "w", document, "O_WRONLY") == "EBUSY")
        #expect(try other.ask("truncate", document, "0") == "EBUSY")
        var status = stat()
        #expect(stat(document, &status) == 0)
        #expect(status.st_size == size)
        #expect(try self.status().counters.kept == 0)
    }
}
