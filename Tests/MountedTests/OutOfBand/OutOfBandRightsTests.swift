// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// A program that entered the source directory before the mount covered it changes the rights of files.
    @Suite struct OutOfBandRightsTests {
        @Test("After a chmod around the mount, other users soon cannot open the file or enter the directory")
        func outOfBandModeChangesRevokeAccess() throws {
            guard geteuid() == 0 else {
                return print("only root can act as others: shown by the run as root")
            }
            let mount = try MountedDirectory(["allow_other"])
            defer { mount.abandon() }
            try Script("cd \"$1\"; echo text >file; mkdir directory; echo text >directory/inner").run(
                mount.path)
            let inside = try Script(
                "while read -r mode name; do chmod \"$mode\" \"$name\"; echo \"$mode $name\"; done"
            ).start(at: mount.path, input: .keyboard)
            defer { inside.endInput() }
            try mount.mount()
            for (name, closed, open, looked) in [
                ("file", "600", "644", "file"), ("directory", "700", "755", "directory/inner"),
            ] {
                // The kernel now caches the file's attributes, which would be valid for an hour.
                #expect(try Self.mayRead(mount.path + "/" + looked))
                for (mode, isOpen) in [(closed, false), (open, true)] {
                    try inside.type("\(mode) \(name)\n")
                    try eventually(within: .seconds(10), "a change by the shell\n\(inside.errorText)") {
                        inside.text.hasSuffix("\(mode) \(name)\n")
                    }
                    let took = try eventually(within: .seconds(10), "\(looked) to be \(isOpen)") {
                        try Self.mayRead(mount.path + "/" + looked) == isOpen
                    }
                    print("chmod \(mode) \(name) around the mount is heeded after \(took.milliseconds) ms")
                }
            }
        }

        @Test(
            "After a chmod of another hard link around the mount, other users soon cannot open the file"
        )
        func aChmodOfAnotherHardLinkRevokesAccess() throws {
            guard Lab.isPassthrough, geteuid() == 0 else {
                return print("shown by root's run with passthrough")
            }
            let outside = try Lab.freshDirectory("outside")
            let prepare = { (source: String) in
                _ = try Script("echo text >\"$1/file\"; ln \"$1/file\" \"$2/link\"").run(source, outside)
            }
            try MountedDirectory.with("allow_other", prepare: prepare) { mount in
                #expect(try Self.mayRead(mount.path + "/file"))
                #expect(chmod(outside + "/link", 0o600) == 0)
                try eventually(within: .seconds(10), "the file to be closed") {
                    try !Self.mayRead(mount.path + "/file")
                }
            }
        }

        @Test(
            "After a chmod and a rename around the mount, other users soon cannot open the file by its former name"
        )
        func aChmodAndARenameOutOfBandRevokeAccess() throws {
            guard Lab.isPassthrough, geteuid() == 0 else {
                return print("shown by root's run with passthrough")
            }
            let mount = try MountedDirectory(["allow_other"])
            defer { mount.abandon() }
            try Script("echo text >\"$1/file\"").run(mount.path)
            let program =
                "import os; input(); os.chmod('file', 0o600); os.rename('file', 'renamed'); print('done')"
            let inside = try Script("cd \"$1\"; exec python3 -c \"$2\"").start(
                mount.path, program, input: .keyboard)
            try eventually(within: .seconds(10), "the program to be inside\n\(inside.errorText)") {
                try FileContents.text(of: "/proc/\(inside.pid)/comm") == "python3\n"
            }
            try mount.mount()
            #expect(try Self.mayRead(mount.path + "/file"))
            try inside.type("\n")
            try inside.wait(within: .seconds(10)).requireSuccess()
            // The kernel has cached the file under this name, so its open needs no look-up. A look-up would find nothing, and
            // no right would be checked.
            try eventually(within: .seconds(10), "the file to be closed") {
                try Self.isRefused(mount.path + "/file")
            }
        }

        private static func mayRead(_ path: String) throws -> Bool { try opening(path).isSuccess }

        /// True if the file exists and opening it to read is refused.
        private static func isRefused(_ path: String) throws -> Bool {
            try opening(path).errorText.contains("Permission denied")
        }

        /// Opens the file and does nothing else, because after a read or stat the kernel would request the file's attributes.
        private static func opening(_ path: String) throws -> ProgramResult {
            try Program("setpriv").attempt(
                "--reuid=12345", "--regid=12345", "--clear-groups", "env", "LC_ALL=C",
                "sh", "-c", ": <\"$1\"", "sh", path)
        }
    }
}
