// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// A stopped daemon answers no request. Checks that no command waits for the daemon without limit.
    @Suite struct StoppedDaemonTests {
        /// The time for which commands wait for an answer, the time after which the test kills them, and a margin for a busy
        /// machine.
        private static let (patience, watchdog, margin) = (
            Duration.seconds(5), Duration.seconds(10), Duration.seconds(10)
        )

        @Test(
            "A lazy unmount removes a stopped daemon's mount after 5 s, and the daemon ends when it is continued"
        )
        func aLazyUnmountRemovesTheMountOfAStoppedDaemon() throws {
            guard Lab.isPassthrough else { return print("shown where the kernel moves the data") }
            try Self.withStopped { mount, pid in
                let bound = Self.patience + Self.margin
                let (outcome, took) = try timed {
                    try TruceCommand.attempt("unmount", "--lazy", mount.path + "/", within: bound)
                }
                print("the mount of a stopped daemon was taken away after \(took)")
                try outcome.requireSuccess()
                #expect(took < bound)
                #expect(try !MountedDirectory.isMounted(mount.path))
                kill(pid, SIGCONT)
                try eventually(within: .seconds(10), "the end of daemon \(pid)") {
                    !MountedDirectory.isAlive(pid)
                }
            }
        }

        @Test("Commands that get no answer from a stopped daemon end with code 4 and name the mount")
        func commandsNameAStoppedDaemonsMount() throws {
            guard Lab.isPassthrough else { return print("shown where the kernel moves the data") }
            try Self.withStopped { mount, _ in
                let commands = [
                    ("unmount", try TruceCommand.start("unmount", mount.path)),
                    ("mount", try TruceCommand.start("mount", mount.path)),
                    ("mount around", try TruceCommand.start("mount", mount.path + "/..")),
                    ("ps", try TruceCommand.start("ps")),
                    ("doctor", try TruceCommand.start("doctor")),
                ]
                for (words, command) in commands {
                    let (outcome, took) = try timed { try command.wait(within: Self.watchdog + Self.margin) }
                    print("truce \(words) was waited for \(took)")
                    try WrongCommandLine(words, code: 4, mount.path).check(outcome, in: mount.path)
                }
                #expect(try MountTableText.has(mount.path))
            }
        }

        @Test(
            "Commands for a file in a stopped daemon's mount all end within 10 s with their documented codes"
        )
        func fileCommandsTimeOutOnAStoppedDaemon() throws {
            guard Lab.isPassthrough else { return print("shown where the kernel moves the data") }
            try Self.withStopped { mount, _ in
                let file = mount.path + "/file"
                let commands: [([String], Int32)] = [
                    (["status", mount.path], 4), (["why", file], 4), (["ps", file], 4),
                    (["doctor", file], 4),
                    (["rules", mount.path], 4), (["rules", "--check", file], 4), (["socket", file], 4),
                    (["versions", file], 4), (["versions", file, "restore", "0123456789abcdef", file], 4),
                    (["unmount", file], 4), (["mount", file], 4), (["mount", "/none", file], 4),
                    (["read", file, "--", "true"], 125), (["write", file, "--", "true"], 125),
                    (["present", file, "--on-save", "true"], 4),
                ]
                let binary = try Lab.variable("TRUCE_BINARY")
                let started = try commands.map { words, code in
                    (words, code, try Script("exec \"$@\"").start(arguments: [binary] + words))
                }
                for (words, code, command) in started {
                    let outcome = try command.wait(within: Self.watchdog + Self.margin)
                    let what = "truce \(words.joined(separator: " ")): \(outcome.errorText)"
                    #expect(outcome.ending == .exited(code), "\(what)")
                    #expect(outcome.text.isEmpty && outcome.errorText.contains("did not answer"), "\(what)")
                }
            }
        }

        @Test("A waiting `truce read` ends and reports that the stopped daemon does not answer")
        func aWaitingCommandReportsAStoppedDaemon() throws {
            guard Lab.isPassthrough else { return print("shown where the kernel moves the data") }
            let mount = try MountedDirectory(["hold=60s", "wait=60s"])
            defer { mount.abandon() }
            try FileContents.write("text\n", to: mount.path + "/file")
            try mount.mount()
            let pid = try mount.daemonPID
            defer { kill(pid, SIGKILL) }
            let holder = try Script("exec \"$1\" write \"$2\" -- bash -c \"echo mine; read line\"").start(
                try Lab.variable("TRUCE_BINARY"), mount.path + "/file", input: .keyboard)
            defer { holder.endInput() }
            try eventually(within: .seconds(10), "a turn") { holder.text == "mine\n" }
            let waiter = try TruceCommand.start("read", mount.path + "/file", "--", "true")
            try eventually(within: .seconds(10), "a program that waits") {
                try mount.status().waiting.count == 1
            }
            kill(pid, SIGSTOP)
            let outcome = try waiter.wait(within: Self.patience + Self.patience + Self.margin)
            #expect(outcome.ending == .exited(125))
            #expect(outcome.errorText.contains("did not answer within 5 s"), "\(outcome.errorText)")
        }

        @Test("While one daemon is stopped, `ps` and `doctor` still show the other mounts")
        func psAndDoctorShowTheMountsOfRunningDaemons() throws {
            guard Lab.isPassthrough else { return print("shown where the kernel moves the data") }
            try Self.withStopped { stopped, _ in
                try MountedDirectory.with { mount in
                    for word in ["ps", "doctor"] {
                        let (outcome, took) = try timed {
                            try TruceCommand.attempt(word, "--json", within: Self.watchdog + Self.margin)
                        }
                        print("truce \(word) passed over a stopped daemon after \(took)")
                        #expect(
                            outcome.ending == .exited(4) && outcome.errorText.contains(stopped.path),
                            "\(outcome.ending) \(outcome.errorText)")
                        #expect(outcome.text.contains(mount.path) && !outcome.text.contains(stopped.path))
                    }
                    checkForcedSteps(try mount.status())
                }
            }
        }

        /// Mounts, stops the daemon, and runs the body. Afterwards always kills the daemon and removes the mount.
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

/// The kernel's table of mounts. Reading this table sends no request to any mount.
enum MountTableText {
    static func has(_ path: String) throws -> Bool {
        try FileContents.text(of: "/proc/self/mountinfo").split(separator: "\n").contains { line in
            line.contains(" \(path) ") && line.contains(" - fuse.truce ")
        }
    }
}
