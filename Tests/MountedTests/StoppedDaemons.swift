// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

extension Mounted {
    /// A daemon that is stopped answers nothing; the commands must not wait for it for ever.
    @Suite struct StoppedDaemons {
        /// How long the commands wait for an answer.
        private static let (patience, watchdog, margin) = (
            Duration.seconds(5), Duration.seconds(10), Duration.seconds(10)
        )

        @Test("Taken away lazily, the mount of a stopped daemon is gone after 5 s, and the daemon ends")
        func lazily() throws {
            try Self.withStopped { mount, pid in
                let bound = Self.patience + Self.margin
                let (outcome, took) = try timed {
                    try TruceCommand.attempt("unmount", "--lazy", mount.path + "/", within: bound)
                }
                print("the mount of a stopped daemon was taken away after \(took)")
                try outcome.succeeding()
                #expect(took < bound)
                #expect(try !MountedDirectory.isMounted(mount.path))
                kill(pid, SIGCONT)
                try eventually(within: .seconds(10), "the end of daemon \(pid)") {
                    !MountedDirectory.isAlive(pid)
                }
            }
        }

        @Test("Commands that a stopped daemon does not answer end with code 4 and name its mount")
        func named() throws {
            try Self.withStopped { mount, _ in
                let commands = [
                    ("unmount", try TruceCommand.start("unmount", mount.path)),
                    ("mount", try TruceCommand.start("mount", mount.path)),
                    ("ps", try TruceCommand.start("ps")),
                    ("doctor", try TruceCommand.start("doctor")),
                ]
                for (words, command) in commands {
                    let (outcome, took) = try timed { try command.wait(within: Self.watchdog + Self.margin) }
                    print("truce \(words) was waited for \(took)")
                    try Wrong(words, code: 4, mount.path).check(outcome, in: mount.path)
                }
                #expect(try MountTableText.has(mount.path))
            }
        }

        @Test("Where one daemon is stopped, ps and doctor tell of the other mounts")
        func others() throws {
            try Self.withStopped { stopped, _ in
                try MountedDirectory.with { mount in
                    for word in ["ps", "doctor"] {
                        let (outcome, took) = try timed {
                            try TruceCommand.attempt(word, "--json", within: Self.watchdog + Self.margin)
                        }
                        print("truce \(word) passed over a stopped daemon after \(took)")
                        #expect(outcome.ending == .exited(4) && outcome.errorText.contains(stopped.path))
                        #expect(outcome.text.contains(mount.path) && !outcome.text.contains(stopped.path))
                    }
                    checkForced(try mount.status())
                }
            }
        }

        /// Whatever happens, the daemon is dead afterwards and its mount taken away.
        private static func withStopped(_ body: (MountedDirectory, Int32) throws -> Void) throws {
            let mount = try MountedDirectory()
            defer { mount.abandon() }
            try mount.mount()
            let pid = try mount.daemonPID
            kill(pid, SIGSTOP)
            defer { kill(pid, SIGKILL) }
            try eventually(within: .seconds(10), "daemon \(pid) to be stopped") {
                ProcessStatus(of: pid)?["State"]?.hasPrefix("T") ?? false
            }
            try body(mount, pid)
        }
    }
}

/// The kernel's own, which asks no mount for anything.
enum MountTableText {
    static func has(_ path: String) throws -> Bool {
        try Contents.text(of: "/proc/self/mountinfo").split(separator: "\n").contains { line in
            line.contains(" \(path) ") && line.contains(" - fuse.truce ")
        }
    }
}
