// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

extension Mounted {
    /// Rights that a program changes around a mount in place, from where it was before.
    @Suite struct RightsAround {
        @Test("A file and a directory that are closed around the mount are closed to others in a moment")
        func closed() throws {
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
                // What the kernel believes from here on would hold for an hour.
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

        private static func mayRead(_ path: String) throws -> Bool {
            try Program("setpriv").attempt(
                "--reuid=12345", "--regid=12345", "--clear-groups", "cat", path
            ).isSuccess
        }
    }
}
