// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// Other file systems that are mounted in the source appear as parts of one file system. Each part has the restrictions of
    /// its own mount, such as nosuid.
    @Suite struct NestedFilesystemTests {
        @Test(
            "Files of nested file systems have unique inode numbers that stay the same in the next mount"
        )
        func nestedFilesystemsHaveStableInodeNumbers() throws {
            try Self.withPieces { mount in
                let numbers = try Self.numbers.run(mount.path).text
                let paths = numbers.split(separator: "\n").count
                let distinct = Set(numbers.split(separator: "\n").map { $0.split(separator: " ")[0] }).count
                print("\(paths) files of three file systems, \(distinct) inode numbers")
                #expect(paths > 20)
                #expect(distinct == paths)
                // In the source, the first files of both file systems have the same inode numbers.
                let below = try Self.numbers.run(mount.below).text
                #expect(Set(below.split(separator: "\n").map { $0.split(separator: " ")[0] }).count < paths)
                try mount.unmount()
                try mount.mount()
                #expect(try Self.numbers.run(mount.path).text == numbers)
            }
        }

        @Test(
            "Inode numbers are below 2⁵³ and equal in listings and in stat"
        )
        func inodeNumbersStayBelow2To53() throws {
            try Self.withPieces { mount in
                // With so many names, the kernel reads the later part of the listing without the files' attributes.
                try Script("cd \"$1\"; touch {1..1500} two/{9..300}").run(mount.below)
                let outcome = try Program("python3").run("-c", Self.comparing, mount.path)
                print("names, numbers, largest: \(outcome.text)")
                let numbers = outcome.text.split(whereSeparator: \.isWhitespace).compactMap { UInt64($0) }
                try #require(numbers.count == 3, "\(outcome.text)")
                #expect(numbers[0] == 1816)
                #expect(numbers[1] == numbers[0])
                #expect(numbers[2] < 1 << 53)
            }
        }

        /// First prints each name for which stat and the listing give different inode numbers. Then prints the number of files
        /// in three file systems, the number of different inode numbers, and the largest inode number.
        private static let comparing = """
            import ctypes, os, sys
            libc = ctypes.CDLL(None, use_errno=True)
            class Entry(ctypes.Structure):
                _fields_ = [("ino", ctypes.c_ulong), ("off", ctypes.c_long), ("length", ctypes.c_ushort),
                            ("type", ctypes.c_ubyte), ("name", ctypes.c_char * 256)]
            libc.opendir.restype = ctypes.c_void_p
            libc.readdir.restype = ctypes.POINTER(Entry)
            libc.readdir.argtypes = libc.closedir.argtypes = [ctypes.c_void_p]
            os.chdir(sys.argv[1])
            names, numbers = 0, set()
            for directory in ("plain", "one", "two", "."):
                stream, listed = libc.opendir(directory.encode()), {}
                while entry := libc.readdir(stream):
                    listed[os.fsdecode(entry.contents.name)] = entry.contents.ino
                libc.closedir(stream)
                for name, number in listed.items():
                    if directory == "." and name == "..":
                        continue
                    status = os.lstat(os.path.join(directory, name))
                    if status.st_ino != number:
                        print(directory, name, number, status.st_ino)
                    if os.path.isfile(os.path.join(directory, name)):
                        names += 1
                        numbers.add(status.st_ino)
            print(names, len(numbers), max(numbers))
            """

        @Test("Renames and links from one nested file system to another fail")
        func renameAndLinkAcrossNestedFilesystemsFail() throws {
            try Self.withPieces { mount in
                for (from, to) in [("plain/1", "one/new"), ("one/1", "two/new"), ("plain/1", "again/new")] {
                    let link = try Program("ln").attempt("\(mount.path)/\(from)", "\(mount.path)/\(to)")
                    #expect(
                        link.errorText.contains("Invalid cross-device link"), "\(from): \(link.errorText)")
                    // mv copies the file to the other file system, as in a plain directory.
                    try Program("mv").run("\(mount.path)/\(from)", "\(mount.path)/\(to)")
                    #expect(try FileContents.text(of: "\(mount.below)/\(to)") == "1\n")
                    try Program("mv").run("\(mount.path)/\(to)", "\(mount.path)/\(from)")
                }
            }
        }

        @Test(
            "A read-only bind mount of a directory shows the directory's contents and refuses changes"
        )
        func aReadOnlyBindMountShowsButRefusesChanges() throws {
            try Self.withPieces { mount in
                for name in ["plain", "again", "unchanged"] {
                    #expect(try Program("cat").run("\(mount.path)/\(name)/2").text == "2\n")
                }
                for (text, way) in [
                    ("by the one", "plain"), ("by the other way", "again"), ("short", "plain"),
                ] {
                    try Script("echo \"$1\" >\"$2\"").run(text, "\(mount.path)/\(way)/2")
                    for name in ["plain", "again", "unchanged"] {
                        #expect(try Program("cat").run("\(mount.path)/\(name)/2").text == text + "\n")
                    }
                }
                try Program("mv").run(mount.path + "/again/2", mount.path + "/again/moved")
                #expect(try Program("ls").attempt(mount.path + "/unchanged/2").ending == .exited(2))
                let refused = try Script("echo no >>\"$1/unchanged/moved\"").attempt(mount.path)
                #expect(refused.errorText.contains("Read-only file system"), "\(refused.errorText)")
                for command in [
                    "rm \"$1/unchanged/1\"", "touch \"$1/unchanged/new\"", "chmod 600 \"$1/unchanged/1\"",
                ] {
                    let outcome = try Script("eval \"$2\"").attempt(mount.path, command)
                    #expect(outcome.errorText.contains("Read-only file system"), "\(outcome.errorText)")
                }
                #expect(try FileContents.text(of: mount.below + "/plain/moved") == "short\n")
            }
        }

        @Test("The flags nosuid, nodev and noexec of a nested file system apply in the mount")
        func theFlagsOfANestedFileSystemApplyInTheMount() throws {
            try Self.withPieces { mount in
                let program = try Script("command -v id").run().text.dropLast()
                for (name, ran, hasDevices) in [
                    ("free", "0\n", true), ("two", "12345\n", false), ("one", "", false),
                ] {
                    let directory = mount.path + "/" + name
                    try Self.furnish.run(mount.below + "/" + name, String(program))
                    let device = try Script("true <\"$1/null\"").attempt(directory)
                    #expect(device.isSuccess == hasDevices, "\(name): \(device.errorText)")
                    let outcome = try Program("setpriv").attempt(
                        "--reuid", "12345", "--clear-groups", directory + "/id", "--user")
                    #expect(outcome.text == ran, "\(name): \(outcome.errorText)")
                }
            }
        }

        @Test(
            "A removed file of a nested file system, where the store can make no link, is preserved with later writes"
        )
        func removedFilesOfANestedFileSystemArePreserved() throws {
            try Self.withPieces { mount in
                let document = mount.path + "/two/document"
                let (holder, other) = (try ScriptedProcess(), try ScriptedProcess())
                for step in ["unlink", "replace"] {
                    // If equal contents are preserved again within a minute, no new version is listed.
                    try other.must("put", document, step + " ")
                    try holder.must("open", "h", document, "O_WRONLY|O_APPEND")
                    try holder.must("write", "h", "more")
                    if step == "unlink" {
                        try other.must("unlink", document)
                    } else {
                        try other.must("put", document + "-new", "new")
                        try other.must("rename", document + "-new", document)
                    }
                    try holder.must("write", "h", " and more")
                    try holder.must("close", "h")
                    try eventually(within: .seconds(10), "what the writer left to be kept") {
                        try mount.kept("two/document").count == (step == "unlink" ? 2 : 4)
                    }
                    let kept = try mount.kept("two/document")
                    for (entry, text) in zip(kept, [step + " more and more", step + " more"]) {
                        let restored = try Lab.freshDirectory("restored") + "/document"
                        try mount.restore(entry.id, to: restored)
                        #expect(try FileContents.text(of: restored) == text)
                    }
                }
                checkForcedSteps(try mount.status())
            }
        }

        @Test(
            "A truncation of a nested file to its present size updates its modification time"
        )
        func aTruncationToThePresentSizeUpdatesTheModificationTime() throws {
            try Self.withPieces { mount in
                let cut = Script(
                    "if [[ $2 == empty ]]; then : >\"$1\"; else truncate --size=\"$2\" \"$1\"; fi")
                for (text, how) in [("", "empty"), ("", "0"), ("four", "4")] {
                    let document = mount.path + "/two/document"
                    try FileContents.write(text, to: document)
                    try Program("touch").run("--date=1 hour ago", document)
                    try cut.run(document, how)
                    let age = try Script("echo $(($(date +%s) - $(stat --format=%Y \"$1\")))").run(document)
                        .text
                    #expect(try #require(Int(age.dropLast())) < 1800, "\(how)")
                }
            }
        }

        @Test("Writes to a removed nested file are preserved when the connection to the kernel is lost")
        func writesToARemovedFileSurviveALostConnection() throws {
            guard geteuid() == 0 else { return print("only root ends connections: shown by the run as root") }
            let control = try Lab.freshDirectory("connections")
            try Program("mount").run("-t", "fusectl", "none", control)
            defer { do { try Program("umount").run(control) } catch { Issue.record(error) } }
            try Self.withPieces { mount in
                let document = mount.path + "/two/document"
                let (holder, other, daemon) = (
                    try ScriptedProcess(), try ScriptedProcess(), try mount.daemonPID
                )
                try other.must("put", document, "begun ")
                try holder.must("open", "h", document, "O_WRONLY|O_APPEND")
                try holder.must("write", "h", "more")
                try other.must("unlink", document)
                try holder.must("write", "h", " and more")
                // When the connection ends, the waiting claim is not granted.
                try holder.must("open", "k", mount.path + "/plain/1", "O_WRONLY|O_APPEND")
                try holder.must("write", "k", "one")
                try other.tell("open", "w", mount.path + "/plain/1", "O_WRONLY|O_TRUNC")
                try mount.waitUntilParked(other.pid)
                let number = try Program("mountpoint").run("--fs-devno", mount.path).text
                let minor = try #require(number.dropLast().split(separator: ":").last)
                try Script("echo 1 >\"$1\"/abort; umount --lazy \"$2\"").run(
                    control + "/" + minor, mount.path)
                try eventually(within: .seconds(11), "the daemon to end") { kill(daemon, 0) != 0 }
                try mount.mount()
                let texts = try mount.kept("two/document").map { try mount.text(ofKept: $0.id) }
                #expect(texts == ["begun more and more", "begun more"])
                #expect(try other.answer() != "ok")
                #expect(try FileContents.text(of: mount.path + "/plain/1") == "1\none")
                withExtendedLifetime(holder) {}
            }
        }

        /// Mounts two further file systems in the source, and one directory that three paths lead to. `one` has every flag that
        /// forbids something, and `two` all flags but noexec.
        private static func withPieces(_ body: (MountedDirectory) throws -> Void) throws {
            guard geteuid() == 0 else { return print("only root can mount: shown by the run as root") }
            let mount = try MountedDirectory(["allow_other"])
            defer {
                mount.abandon()
                do { try takeAway.run(mount.path) } catch { Issue.record(error) }
            }
            try make.run(mount.path)
            try mount.mount()
            try body(mount)
            try mount.unmount()
        }

        private static let make = Script(
            """
            cd "$1"
            mkdir plain again unchanged one two free
            mount -t tmpfs -o mode=777,nosuid,nodev,noexec none one
            mount -t tmpfs -o mode=777,nosuid,nodev none two
            for directory in plain one two; do
                for number in {1..8}; do echo $number >$directory/$number; done
            done
            mount --bind plain again
            mount --bind plain unchanged
            mount -o remount,bind,ro unchanged
            """)

        private static let takeAway = Script(
            "cd \"$1\"; for name in again unchanged one two; do ! mountpoint -q $name || umount $name; done")

        private static let numbers = Script("cd \"$1\"; find plain one two -printf '%i %p\\n' | sort")

        private static let furnish = Script(
            "cd \"$1\"; mknod -m 666 null c 1 3; cp \"$2\" id; chmod 4755 id")
    }
}
