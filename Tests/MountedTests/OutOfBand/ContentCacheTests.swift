// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// The kernel's cache of a file always has the file's real contents, whether the kernel or the daemon reads and writes the
    /// file's data.
    @Suite struct ContentCacheTests {
        private static let rounds = 50

        @Test("Repeated reads of a file come from the kernel's cache until the file changes in any way")
        func aReadIsCachedUntilTheFileChanges() throws {
            try MountedDirectory.with(prepare: { try Script("seq 5000 >\"$1\"/file").run($0) }) { mount in
                let read = try mount.status().counters.read
                #expect(try Self.isRead(in: mount))
                let first = try mount.status().counters.read
                for _ in 0..<Self.rounds { #expect(try Self.isRead(in: mount)) }
                #expect(try mount.status().counters.read == first, "read again")
                for step in [
                    "printf more >>file", "printf other | dd of=file conv=notrunc status=none",
                    "truncate --size=3000 file", "truncate --size=9000 file", "seq 100 >file",
                    "seq 300 >new; cp new file",
                    "seq 7 >new; mv new file", "sed -i s/1/2/ file", "fallocate --length 4096 file",
                    "fallocate --punch-hole --offset 0 --length 2 file",
                    "python3 -c 'import mmap; f = open(\"file\", \"r+b\"); m = mmap.mmap(f.fileno(), 0); m[2:4] = b\"!!\"'",
                    "python3 -c 'import os; os.copy_file_range(os.open(\"new\", 0), os.open(\"file\", 1), 3)'",
                    "touch --date=2001-01-01 file", "ln file link; printf more >>link",
                ] {
                    try Script("cd \"$1\"; seq 9 >new; eval \"$2\"").run(mount.path, step)
                    #expect(try Self.isRead(in: mount), "after \(step)")
                    #expect(try Self.isRead(in: mount), "the second time after \(step)")
                }
                let dataPath = try Lab.dataPath
                #expect(try mount.status().counters.read > read || dataPath == .passthrough)
            }
        }

        @Test("The next open reads what was written around the mount")
        func outOfBandWritesShowAtTheNextOpen() throws {
            try MountedDirectory.with(prepare: { try Program("touch").run($0 + "/file") }) { mount in
                for round in 100..<100 + Self.rounds {
                    try Script("printf %s \"$2\" | dd of=\"$1\" conv=notrunc status=none").run(
                        mount.below + "/file", "\(round)")
                    #expect(try Program("cat").run(mount.path + "/file").text == "\(round)")
                }
            }
        }

        @Test(
            "A file whose size changed around the mount is read to its new end, even after a stat of the old size"
        )
        func aFileWhoseSizeChangedOutOfBandIsReadToItsNewEnd() throws {
            try MountedDirectory.with(prepare: { try Program("touch").run($0 + "/file") }) { mount in
                let file = mount.path + "/file"
                for text in ["longer", "", "longer again", "short", "as long as it can be here"] {
                    _ = try Program("stat").run(file)
                    try Script("printf %s \"$2\" >\"$1\"").run(mount.below + "/file", text)
                    #expect(try Program("cat").run(file).text == text)
                }
            }
        }

        @Test("After a file is replaced around the mount, programs that open the name write to the new file")
        func writesGoToTheFileThatReplacedAnotherOutOfBand() throws {
            try MountedDirectory.with(prepare: { try FileContents.write("old", to: $0 + "/file") }) { mount in
                let (file, holder) = (mount.path + "/file", try ScriptedProcess())
                #expect(try Program("cat").run(file).text == "old")
                try Script("printf theirs >\"$1/new\"; mv \"$1/new\" \"$1/file\"").run(mount.below)
                try holder.must("open", "h", file, "O_WRONLY|O_APPEND")
                try holder.must("write", "h", " and mine")
                try holder.must("close", "h")
                #expect(try FileContents.text(of: mount.below + "/file") == "theirs and mine")
                #expect(try Program("cat").run(file).text == "theirs and mine")
                // Repeats the check with two writers, which reach the replaced file by its cached name.
                try Script("printf more >\"$1/new\"; mv \"$1/new\" \"$1/file\"").run(mount.below)
                let writers = [try ScriptedProcess(), try ScriptedProcess()]
                for writer in writers { try writer.tell("put", file, "last") }
                for writer in writers { #expect(try writer.answer() == "ok") }
                #expect(try FileContents.text(of: mount.below + "/file") == "last")
                // The holder of a file without a name can open the file again by its descriptor in `/proc`.
                try Script(
                    """
                    exec 3<"$1/file"; rm "$2/file"; echo other >"$2/file"
                    echo kept >/proc/self/fd/3; cat /proc/self/fd/3
                    """
                ).run(mount.path, mount.below)
            }
        }

        @Test(
            "Reads during writes leave no old contents in the kernel's cache"
        )
        func readsDuringWritesLeaveNoOldContentsInTheCache() throws {
            try MountedDirectory.with(prepare: { try Program("touch").run($0 + "/file") }) { mount in
                for place in [mount.path, mount.below] {
                    let reading = try Program("python3").run(
                        "-c",
                        """
                        import os, sys, threading
                        through, written = sys.argv[1] + "/file", sys.argv[2] + "/file"
                        def get():
                            with open(through, "rb", buffering=0) as file: return file.read()
                        def read():
                            while not ended: get()
                        for round in range(40):
                            ended = False
                            readers = [threading.Thread(target=read) for _ in range(3)]
                            for reader in readers: reader.start()
                            for step in range(25):
                                last = b"%08d" % (round * 100 + step) * 2048
                                descriptor = os.open(written, os.O_WRONLY)
                                os.write(descriptor, last)
                                os.close(descriptor)
                                if step % 5 == 0 and get() != last: print("in between", round, step)
                            ended = True
                            for reader in readers: reader.join()
                            for look in range(2):
                                if get() != last: print("afterwards", round, look)
                        """, mount.path, place)
                    #expect(reading.text == "", "written to \(place)")
                }
            }
        }

        /// During a write the kernel changes a file's times before its contents.
        @Test("A read in the middle of a long write leaves no old contents in the kernel's cache")
        func aReadDuringALongWriteLeavesNoOldContents() throws {
            try MountedDirectory.with(prepare: { try Program("truncate").run("--size=64M", $0 + "/file") }) {
                mount in
                for place in [mount.path, mount.below] {
                    let reading = try Program("python3").run(
                        "-c",
                        """
                        import os, sys, threading
                        through, written, size = sys.argv[1] + "/file", sys.argv[2] + "/file", 1 << 26
                        def last():
                            descriptor = os.open(through, os.O_RDONLY)
                            os.fstat(descriptor)
                            found = os.pread(descriptor, 1, size - 1)
                            os.close(descriptor)
                            return found
                        def read():
                            while not ended: last()
                        for round in b"abcdef":
                            ended = False
                            readers = [threading.Thread(target=read) for _ in range(2)]
                            for reader in readers: reader.start()
                            descriptor = os.open(written, os.O_WRONLY | os.O_CREAT, 0o644)
                            os.pwrite(descriptor, bytes([round]) * size, 0)
                            os.close(descriptor)
                            ended = True
                            for reader in readers: reader.join()
                            if last() != bytes([round]): print("after", chr(round))
                        """, mount.path, place)
                    #expect(reading.text == "", "written to \(place)")
                }
            }
        }

        @Test(
            "Data written to a mapping around the mount is read, even on tmpfs, where the write changes no timestamp"
        )
        func dataWrittenToAMappingOutOfBandIsReadOnTmpfs() throws {
            guard geteuid() == 0 else {
                return print("only root can mount a tmpfs: shown by the run as root")
            }
            try SmallFilesystem.with("size=8m") { small in
                try Script("echo before >\"$1\"/file").run(small.source)
                let below = open(small.source, O_RDONLY | O_DIRECTORY)
                defer { close(below) }
                try small.mount()
                #expect(try Program("cat").run(small.source + "/file").text == "before\n")
                for word in ["first!", "second"] {
                    try Program("python3").run(
                        "-c",
                        """
                        import mmap, os, sys
                        memory = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 0)
                        memory[0]
                        memory[0:6] = sys.argv[2].encode()
                        """, "/proc/\(getpid())/fd/\(below)/file", word)
                    #expect(try Program("cat").run(small.source + "/file").text == word + "\n")
                }
            }
        }

        /// True if a read in the mount gives the present contents.
        private static func isRead(in mount: MountedDirectory) throws -> Bool {
            try Program("cat").run(mount.path + "/file").text
                == Program("cat").run(mount.below + "/file").text
        }
    }
}
