// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// Checks that the daemon reaches files in directory trees that are deeper than its limit of descriptors.
    @Suite struct DeepTreeTests {
        @Test(
            "A look-up in a deep directory ends at once after the directories above were removed around the mount"
        )
        func aLookupInADeepDirectoryEndsAtOnceAfterTheRemovalOfTheDirectory() throws {
            try Self.withFew(deep: 60) { mount, client in
                try Script("rm -rf \"$1\"/d").run(mount.below)
                let (found, took) = try timed { try Self.ask(client, "look 60") }
                print("60 directories below one that is gone, a look ended in \(took): \(found)")
                #expect(found.hasPrefix("errno"))
                #expect(took < .seconds(10))
            }
        }

        @Test("Files below 30,000 nested directories are found, and later forgotten")
        func filesBelow30000DirectoriesAreFound() throws {
            try Self.withFew(deep: 30_000) { mount, client in
                let (found, took) = try timed { try Self.ask(client, "look 1000") }
                print("29,000 directories deep, a file was found in \(took)")
                #expect(found == "file")
                #expect(try Self.ask(client, "open 1000") == "opened")
                #expect(try Self.ask(client, "leave") == "left")
                guard geteuid() == 0 else {
                    return print("only root can make the kernel forget: shown by the run as root")
                }
                // ext4 keeps the inodes of recent changes in memory. These changes push the inode of the file out of memory.
                try Script("sync; echo 2 >/proc/sys/vm/drop_caches").run(within: .seconds(120))
                try Script("sync; echo 2 >/proc/sys/vm/drop_caches").run(within: .seconds(120))
                try Script("cat \"$1\"/others/*").run(mount.path)
                let last = try mount.status().journal.filter { $0.path.hasSuffix("/file") }
                #expect(last.isEmpty)
            }
        }

        /// Mounts a tree of nested directories; the deepest directories have a file. The daemon has closed its descriptors of
        /// most directories. `client` runs in the deepest directory.
        private static func withFew(
            deep depth: Int, _ body: (MountedDirectory, RunningProgram) throws -> Void
        ) throws {
            let mount = try MountedDirectory([])
            do {
                try Program("python3").run("-c", making, mount.path, "\(depth)", within: .seconds(120))
                try Script("mkdir \"$1\"/others; touch \"$1\"/others/{1..5000}").run(mount.path)
                try mount.mount(descriptors: 256)
                let client = try Program("python3").start(
                    "-c", asking, mount.path, "\(depth)", input: .keyboard)
                #expect(try ask(client, "go") == "there")
                try Script("cat \"$1\"/others/*").run(mount.path)
                try body(mount, client)
                client.endInput()
                _ = try client.wait(within: .seconds(60)).requireSuccess()
                try mount.unmount()
            } catch {
                mount.abandon()
                throw error
            }
            // rm removes the tree with relative names, because the whole path is longer than PATH_MAX.
            try Script("rm -rf \"$1\"/d").run(mount.path, within: .seconds(120))
        }

        /// Sends a request to the client, and returns the line that the client prints.
        private static func ask(_ client: RunningProgram, _ request: String) throws -> String {
            let lines = { client.text.split(separator: "\n") }
            let before = lines().count
            try client.type(request + "\n")
            try eventually(within: .seconds(60), "an answer to '\(request)'\n\(client.errorText)") {
                if client.hasEnded { throw TestFailure("the client ended: \(client.errorText)") }
                return lines().count > before
            }
            return String(lines()[before])
        }

        private static let making = """
            import os, sys
            os.chdir(sys.argv[1])
            depth = int(sys.argv[2])
            for level in range(depth):
                os.mkdir("d")
                os.chdir("d")
                if depth - level <= 2000: open("file", "w").close()
            """

        /// A Python program that goes down the tree. It then looks up a file from a directory the given number of levels above
        /// the file.
        private static let asking = """
            import os, sys
            os.chdir(sys.argv[1])
            top = os.open(".", os.O_RDONLY)
            for line in sys.stdin:
                words = line.split()
                try:
                    if words[0] == "go":
                        for _ in range(int(sys.argv[2])): os.chdir("d")
                        print("there", flush=True)
                    elif words[0] == "leave":
                        os.chdir(top)
                        print("left", flush=True)
                    else:
                        up = "../" * (int(words[1]) if int(words[1]) <= 1000 and int(sys.argv[2]) > 60 else 0)
                        if words[0] == "look":
                            os.stat(up + "file")
                            print("file", flush=True)
                        else:
                            os.close(os.open(up + "file", os.O_RDWR))
                            print("opened", flush=True)
                except OSError as error:
                    print("errno", error.errno, flush=True)
            """
    }
}
