// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// A program writes to a shared mapping without a system call. Without passthrough, the daemon gets the changed pages only
    /// when the kernel writes them back.
    @Suite struct MappedWriterTests {
        private static let bounds = "wait=120s,hold=1s,idle=300ms"
        private static let margin = Duration.seconds(10)

        @Test(
            "Data written to a mapping is preserved before another program truncates the file",
            arguments: Place.all)
        func mappedWritesArePreservedOnTruncation(place: Place) throws {
            try Self.withMapping(place) { mount, document in
                let (_, took) = try timed { try Script("echo new >\"$1\"").run(document) }
                print("a writer went over a mapping after \(took) (bound 1 s)")
                #expect(took < .seconds(1) + Self.margin)
                #expect(try FileContents.text(of: mount.below + "/document") == "new\n")
                let kept = try Self.kept(mount)
                #expect(kept.contains("stored by the mapping"), "\(kept)")
            }
        }

        @Test(
            "Data written to a mapping is preserved before another program replaces the file",
            arguments: Place.all)
        func mappedWritesArePreservedOnReplacement(place: Place) throws {
            try Self.withMapping(place) { mount, document in
                try Script("echo new >\"$1\"-next; mv \"$1\"-next \"$1\"").run(document)
            } after: { mount in
                let kept = try Self.kept(mount)
                #expect(kept.contains("stored by the mapping"), "\(kept)")
            }
        }

        @Test(
            "A reader waits until a mapping was not written for a while, and then reads all data written to it",
            arguments: Place.all)
        func aReaderSeesAllDataThatWasWrittenToAMapping(place: Place) throws {
            try Self.withMapping(place) { mount, document in
                let (found, took) = try timed { try Program("cat").run(document).text }
                print("a reader went by a mapping after \(took) (bound 300 ms)")
                #expect(found == "stored by the mapping")
                #expect(took >= .milliseconds(300))
                #expect(took < .milliseconds(300) + Self.margin)
            }
        }

        @Test(
            "When twelve writers preempt twelve mappings at the same time, the data written to each mapping is preserved"
        )
        func theDataOfTwelveMappingsPreemptedAtTheSameTimeIsPreserved() throws {
            try MountedDirectory.with(Self.bounds) { mount in
                let place = try Lab.freshDirectory("order")
                try Script("for n in {1..12}; do echo old >\"$1\"/document-$n; done").run(mount.path)
                let writer = try Program("python3").start(
                    "-c", Self.storingMany, mount.path, input: .keyboard)
                try eventually(within: .seconds(10), "the stores\n\(writer.errorText)") {
                    writer.text == "stored\n"
                }
                let (_, took) = try timed {
                    try Script(
                        "for n in {1..12}; do echo new >\"$1\"/document-$n & cat \"$1\"/document-$n >\"$2\"/$n & done; wait"
                    ).run(mount.path, place)
                }
                print("twelve writers went over as many mappings after \(took) (bound 1 s)")
                #expect(took < .seconds(1) + Self.margin)
                writer.endInput()
                _ = try writer.wait(within: .seconds(10)).requireSuccess()
                for number in 1...12 {
                    let kept = try mount.kept("document-\(number)").count
                    #expect(kept > 0, "document-\(number)")
                }
            }
        }

        @Test(
            "During a truncation of a mapped file, requests for other files are answered"
        )
        func aTruncationOfAMappedFileDelaysNoRequestForAnotherFile() throws {
            let write = { (source: String) in
                try FileContents.write("as it was before that", to: source + "/document")
                try FileContents.write("other\n", to: source + "/other")
            }
            try MountedDirectory.with(Self.bounds, prepare: write) { mount in
                let document = mount.path + "/document"
                let cutter = try ScriptedProcess()
                try cutter.must("open", "c", document, "O_WRONLY")
                let writer = try Program("python3").start("-c", Self.storing, document, input: .keyboard)
                try eventually(within: .seconds(10), "the stores\n\(writer.errorText)") {
                    writer.text == "stored\n"
                }
                let (_, took) = try timed { try cutter.must("size", "c", "0") }
                print("an open file was cut beside a mapping of it after \(took) (bound 250 ms)")
                #expect(took < .milliseconds(250) + Self.margin)
                let cat = try Program("cat").start(mount.path + "/other")
                #expect(try cat.wait(within: .seconds(10), for: "another file").text == "other\n")
                writer.endInput()
                _ = try writer.wait(within: .seconds(10))
            }
        }

        @Test(
            "A mapping whose descriptor is closed still has its claim, and the data written to it is preserved",
            arguments: Place.all)
        func aMappingKeepsItsClaimAfterItsDescriptorIsClosed(place: Place) throws {
            try Self.withMapping(place, storing: Self.storingClosed) { mount, document in
                // The contents that were written to the mapping exist only in the kernel's cache.
                #expect(try Program("cat").run(document).text == "stored by the mapping")
                let (_, took) = try timed { try Script("echo new >\"$1\"").run(document) }
                print("a writer went over a mapping without a descriptor after \(took) (bound 1 s)")
                #expect(took < .seconds(1) + Self.margin)
                let kept = try Self.kept(mount)
                #expect(kept.contains("stored by the mapping"), "\(kept)")
            } after: { mount in
                let (_, took) = try timed { try Script("echo newer >\"$1\"").run(mount.path + "/document") }
                print("no program waited for a mapping that is gone: \(took)")
                #expect(took < Self.margin)
            }
        }

        @Test(
            "A program that has the file open around the mount is not taken for a mapping"
        )
        func anOutOfBandWriterIsNotTakenForAMapping() throws {
            let write = { (source: String) in try FileContents.write("old\n", to: source + "/document") }
            try MountedDirectory.with("wait=1s,hold=60s,idle=60s", prepare: write) { mount in
                let (outsider, document) = (try ScriptedProcess(), mount.path + "/document")
                try outsider.must("open", "o", mount.below + "/document", "O_WRONLY")
                for line in ["one", "two"] {
                    try Script("echo new 1<>\"$1\"").run(document)
                    try Script("echo \"$2\" >>\"$1\"").run(document, line)
                }
                #expect(try FileContents.text(of: document) == "new\none\ntwo\n")
                #expect(try mount.counters.proceeded == 0)
                try outsider.must("close", "o")
                checkForcedSteps(try mount.status())
            }
        }

        private static let storingMany = """
            import mmap, os, sys
            files = [os.open(sys.argv[1] + f"/document-{number}", os.O_RDWR) for number in range(1, 13)]
            mapped = [mmap.mmap(file, 0) for file in files]
            for each in mapped:
                if each[:] != b"old\\n": sys.exit("something else")
                each[:] = b"now\\n"
            print("stored", flush=True)
            sys.stdin.read()
            """

        /// The kind of file system that contains the mapped file.
        enum Place: String, Sendable {
            case lab, memory

            static var all: [Place] { access("/dev/shm", W_OK) == 0 ? [.lab, .memory] : [.lab] }
        }

        /// Starts a program that opens a file and writes to a mapping of it. Then runs the body, which uses the file.
        private static func withMapping(
            _ place: Place, storing: String = storing,
            _ body: (MountedDirectory, _ document: String) throws -> Void,
            after: (MountedDirectory) throws -> Void = { _ in }
        ) throws {
            let mount = try MountedDirectory([bounds], in: place == .memory ? "/dev/shm" : nil)
            // The lab itself removes mounts at all other places.
            defer { if place == .memory { remove(mount.path) } }
            do {
                try FileContents.write("as it was before that", to: mount.path + "/document")
                try mount.mount()
                let document = mount.path + "/document"
                let writer = try Program("python3").start("-c", storing, document, input: .keyboard)
                try eventually(within: .seconds(10), "the stores\n\(writer.errorText)") {
                    writer.text == "stored\n"
                }
                try body(mount, document)
                writer.endInput()
                _ = try writer.wait(within: .seconds(10)).requireSuccess()
                try after(mount)
                try mount.unmount()
            } catch {
                mount.abandon()
                throw error
            }
        }

        private static func kept(_ mount: MountedDirectory) throws -> [String] {
            try mount.kept("document").map { entry in
                let restored = try Lab.freshDirectory("restored") + "/document"
                try mount.restore(entry.id, to: restored)
                return try FileContents.text(of: restored)
            }
        }

        private static func remove(_ directory: String) {
            do { try Program("rm").run("-rf", directory) } catch { Issue.record("\(error)") }
        }

        private static let storingClosed = """
            import ctypes, os, sys
            # Python's own mmap module would keep a descriptor of the file open.
            library = ctypes.CDLL(None)
            library.mmap.restype = ctypes.c_void_p
            library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + 3 * [ctypes.c_int] + [ctypes.c_long]
            file = os.open(sys.argv[1], os.O_RDWR)
            size = os.fstat(file).st_size
            mapped = library.mmap(None, size, 3, 1, file, 0)
            os.close(file)
            if ctypes.string_at(mapped, size) != b"as it was before that": sys.exit("something else")
            ctypes.memmove(mapped, b"stored by the mapping", size)
            print("stored", flush=True)
            sys.stdin.read()
            """

        private static let storing = """
            import mmap, os, sys
            file = os.open(sys.argv[1], os.O_RDWR)
            mapped = mmap.mmap(file, 0)
            # After a page was read, tmpfs does not notice a store to it.
            if mapped[:] != b"as it was before that": sys.exit("something else")
            mapped[:] = b"stored by the mapping"
            print("stored", flush=True)
            sys.stdin.read()
            """
    }
}
