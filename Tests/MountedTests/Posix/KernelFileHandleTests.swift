// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// A kernel file handle is valid as long as its file exists, even if the kernel or the daemon has forgotten the file. An
    /// NFS server stores only the handle.
    @Suite struct KernelFileHandleTests {
        private static let worker = Checkout.path("Tests/Workers/file-handles")

        @Test(
            "A kernel file handle leads to its file after the daemon and the kernel have forgotten the file")
        func aKernelFileHandleLeadsToAFileThatDaemonAndKernelHaveForgotten() throws {
            try Self.withTree { mount in
                let handles = try ["a/b/file", "a/b", "a", ""].map { try Self.handle(mount, $0) }
                for hasNames in [true, false] {
                    try Self.restart(mount, forgettingNames: !hasNames)
                    #expect(try Self.read(mount, handles[0]) == "one\n")
                    #expect(try Self.read(mount, handles[1]) == "file other\n")
                    #expect(try Self.read(mount, handles[2]) == "b\n")
                    #expect(try Self.read(mount, handles[3]) == "a\n")
                    try Script("echo more >>\"$1\"/a/b/file; mv \"$1\"/a/b \"$1\"/a/c").run(mount.path)
                    #expect(try Self.read(mount, handles[0]) == "one\nmore\n")
                    let written = try Program("python3").run(
                        Self.worker, "write", mount.path, handles[0], "one")
                    #expect(written.text == "written\n")
                    #expect(try FileContents.text(of: mount.below + "/a/c/file") == "one\n")
                    try Program("mv").run(mount.path + "/a/c", mount.path + "/a/b")
                }
            }
        }

        @Test(
            "Writes by a kernel file handle go to the file, and no version is preserved"
        )
        func writesByAKernelFileHandlePreserveNoVersion() throws {
            try Self.withTree { mount in
                let handle = try Self.handle(mount, "a/b/file")
                for text in ["once", "twice"] {
                    try Self.restart(mount, forgettingNames: true)
                    let written = try Program("python3").run(
                        Self.worker, "write", mount.path, handle, text)
                    #expect(written.text == "written\n")
                    let status = try mount.status()
                    #expect(status.counters.kept == 0 && status.counters.estale == 0)
                    #expect(try Program("cat").run(mount.path + "/a/b/file").text == text + "\n")
                }
            }
        }

        @Test(
            "The kernel file handle of a removed file gives ESTALE, although the store preserves the file",
            arguments: [false, true])
        func aKernelFileHandleNeverReachesAVersion(forgettingNames: Bool) throws {
            try Self.withTree { mount in
                let handle = try Self.handle(mount, "a/b/file")
                let writer = try Script("exec 3>>\"$1\"; echo ready; read -r; echo more >&3").start(
                    mount.path + "/a/b/file", input: .keyboard)
                try eventually(within: .seconds(20), "the writer to have the file open") {
                    writer.text == "ready\n"
                }
                try Program("rm").run(mount.path + "/a/b/file")
                writer.endInput()
                _ = try writer.wait(within: .seconds(20))
                try eventually(within: .seconds(20), "the file to be kept") {
                    try mount.status().counters.kept == 1
                }
                try Self.restart(mount, forgettingNames: forgettingNames)
                #expect(try Self.read(mount, handle) == "ESTALE\n")
            }
        }

        @Test("A file with a second name outside the source is found by its kernel file handle")
        func aKernelFileHandleFindsAFileWithASecondNameOutsideTheSource() throws {
            try Self.withTree { mount in
                let handle = try Self.handle(mount, "a/b/file")
                try mount.unmount()
                try Script(
                    "ln \"$1\"/a/b/file \"$1\"/../outside; sync; echo 2 >/proc/sys/vm/drop_caches; cat \"$1\"/../outside"
                )
                .run(mount.path)
                try mount.mount()
                #expect(try Self.read(mount, handle) == "one\n")
            }
        }

        @Test("An open by a kernel file handle makes the presenter save before the program gets the file")
        func anOpenByAKernelFileHandleAsksThePresenter() throws {
            try Self.withTree { mount in
                let handle = try Self.handle(mount, "a/b/file")
                try Self.restart(mount, forgettingNames: true)
                let document = mount.path + "/a/b/file"
                let presenter = try TruceCommand.start(
                    "present", document, "--on-save", "echo unsaved >\"$TRUCE_PATH\"")
                try eventually(within: .seconds(20), "the presenter to be known\n\(presenter.errorText)") {
                    presenter.text.hasPrefix("truce: presenting")
                }
                #expect(try Self.read(mount, handle) == "unsaved\n")
                try presenter.end()
            }
        }

        @Test("A kernel file handle of a deleted file is stale, even if its inode number is used again")
        func aKernelFileHandleOfAReusedInodeIsStale() throws {
            try Self.withTree { mount in
                let handle = try Self.handle(mount, "a/b/file")
                let number = try Program("stat").run("--format=%i", mount.path + "/a/b/file").text
                try Program("rm").run(mount.path + "/a/b/file")
                // ext4 gives a new file the lowest free inode number. The removed file's number is free only after the kernel
                // has told the daemon to forget the file, maybe after `rm` has ended.
                let stranger = Script(
                    "cd \"$1\"/a/b; rm -f stranger; echo stranger >stranger; stat --format=%i stranger")
                try eventually(within: .seconds(20), "a stranger to get number \(number)") {
                    try stranger.run(mount.path).text == number
                }
                #expect(try Self.read(mount, handle) == "ESTALE\n")
                try Self.restart(mount, forgettingNames: false)
                #expect(try Self.read(mount, handle) == "ESTALE\n")
                #expect(try Program("cat").run(mount.path + "/a/b/stranger").text == "stranger\n")
            }
        }

        @Test(
            "A kernel file handle does not reach a file that was moved out of the source or into the store",
            arguments: ["..", ".truce"])
        func aKernelFileHandleReachesNoFileOutsideTheSourceOrInTheStore(place: String) throws {
            try Self.withTree { mount in
                let handles = try ["a/b/file", "a/b"].map { try Self.handle(mount, $0) }
                try mount.unmount()
                try Script("mv \"$1\"/a/b \"$1/$2\"/moved").run(mount.below, place)
                try mount.mount()
                #expect(try Self.read(mount, handles[0]) == "ESTALE\n")
                #expect(try Self.read(mount, handles[1]) == "ESTALE\n")
                try mount.unmount()
                try Script("mv \"$1/$2\"/moved \"$1\"/a/b").run(mount.below, place)
                try mount.mount()
                #expect(try Self.read(mount, handles[0]) == "one\n")
            }
        }

        /// Mounts over a new ext4 file system and runs the body.
        private static func withTree(_ body: (MountedDirectory) throws -> Void) throws {
            guard geteuid() == 0 else {
                return print("only root opens files by their handles: shown by the run as root")
            }
            let furnish = Script(
                "mkdir --parents \"$1\"/a/b; echo one >\"$1\"/a/b/file; echo two >\"$1\"/a/b/other")
            try LoopFilesystem.with(prepare: { _ = try furnish.run($0.path) }, body)
        }

        /// Mounts again with a new daemon, which has no data in memory. If requested, the kernel also forgets the names of the
        /// source.
        private static func restart(_ mount: MountedDirectory, forgettingNames: Bool) throws {
            try mount.unmount()
            if forgettingNames { try Script("sync; echo 2 >/proc/sys/vm/drop_caches").run() }
            try mount.mount()
        }

        private static func handle(_ mount: MountedDirectory, _ path: String) throws -> String {
            let text = try Program("python3").run(worker, "take", "\(mount.path)/\(path)").text
            return String(text.dropLast())
        }

        private static func read(_ mount: MountedDirectory, _ handle: String) throws -> String {
            try Program("python3").run(worker, "read", mount.path, handle).text
        }
    }
}
