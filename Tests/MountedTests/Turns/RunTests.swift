// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

/// `truce run` on real mounts: one identity for all processes of a command, and leases.
extension MountTests {
    @Suite struct RunTests {
        @Test(
            "Other programs wait for a run's lease, its own processes do not, and `why` and `status` name the run"
        )
        func otherProgramsWaitForALease() throws {
            try Self.withDocument("wait=60s", "hold-aware=60s") { mount, document in
                let run = try Self.start(
                    mount, ["--write", "*.md", "--name", "build"],
                    "echo ready; read line; echo new >notes.md; echo written; read line")
                try eventually(within: .seconds(10), "the command to run") { run.text == "ready\n" }
                // A process cannot claim to belong to the run: it does not know the token.
                let other = try Program("cat").start(
                    document, with: ["TRUCE_RUN": String(repeating: "0", count: 32)])
                try mount.waitUntilParked(other.pid)
                let why = try TruceCommand.run("why", document).text
                #expect(
                    why.contains("waits for truce run 'build' (\(run.pid)), which is writing notes.md"),
                    "\(why)")
                let status = try TruceCommand.run("status", mount.path).text
                #expect(status.contains("run 'build' (pid \(run.pid)) of "), "\(status)")
                #expect(status.contains(": write '*.md', documents held: 1"), "\(status)")
                try Script("echo other >\"$1\"").run(mount.path + "/other.txt")
                try run.type("\n")
                try eventually(within: .seconds(10), "the run's own write") { run.text == "ready\nwritten\n" }
                #expect(!other.hasEnded)
                try run.type("\n")
                try run.wait(within: .seconds(10)).requireSuccess()
                #expect(try other.wait(within: .seconds(10)).text == "new\n")
                #expect(try !TruceCommand.run("status", mount.path).text.contains("documents held"))
                checkForcedSteps(try mount.status())
            }
        }

        @Test("A lease covers names that the run makes later, and the removal of such a name waits")
        func aLeaseCoversNamesThatAreMadeLater() throws {
            try Self.withDocument("wait=60s", "hold-aware=60s") { mount, _ in
                let run = try Self.start(
                    mount, ["--write", "out/**"], "mkdir -p out/a; echo made >out/a/b; echo ready; read line")
                try eventually(within: .seconds(10), "the command to run") { run.text == "ready\n" }
                let remover = try Program("rm").start(mount.path + "/out/a/b")
                try mount.waitUntilParked(remover.pid)
                #expect(try FileContents.text(of: mount.below + "/out/a/b") == "made\n")
                try run.type("\n")
                try run.wait(within: .seconds(10)).requireSuccess()
                try remover.wait(within: .seconds(10)).requireSuccess()
                checkForcedSteps(try mount.status())
            }
        }

        @Test("A process of a run that has forked twice and left its session still belongs to the run (D236)")
        func aProcessWithoutLivingParentBelongsToItsRun() throws {
            try Self.withDocument("wait=60s", "hold-aware=60s") { mount, document in
                let fifos = try Lab.freshDirectory("fifos")
                try Script("mkfifo \"$1/begin\" \"$1/end\"").run(fifos)
                let inner = "read line <\(fifos)/begin; echo inside >notes.md; echo done >\(fifos)/end"
                let run = try Self.start(
                    mount, ["--write", "notes.md"], "setsid --fork bash -c '\(inner)'; echo ready; read line")
                try eventually(within: .seconds(10), "the command to run") { run.text == "ready\n" }
                let other = try Program("cat").start(document)
                try mount.waitUntilParked(other.pid)
                #expect(
                    try Script("echo >\"$1/begin\"; cat \"$1/end\"").run(fifos, within: .seconds(20)).text
                        == "done\n")
                #expect(!other.hasEnded)
                try run.type("\n")
                try run.wait(within: .seconds(10)).requireSuccess()
                #expect(try other.wait(within: .seconds(10)).text == "inside\n")
                checkForcedSteps(try mount.status())
            }
        }

        @Test("The leases end when `truce run` is killed, although its command goes on")
        func theLeasesEndWhenTruceRunIsKilled() throws {
            try Self.withDocument("wait=60s", "hold-aware=60s") { mount, document in
                let run = try Self.start(mount, ["--write", "**"], "cd /; echo ready; read line")
                try eventually(within: .seconds(10), "the command to run") { run.text == "ready\n" }
                let other = try Program("cat").start(document)
                try mount.waitUntilParked(other.pid)
                run.send(SIGKILL)
                #expect(try other.wait(within: .seconds(10)).text == "old\n")
                run.endInput()
                checkForcedSteps(try mount.status())
            }
        }

        @Test(
            "Beyond `hold-aware` a lease is suspended, the command is told, and what it then overwrites is preserved (D237)"
        )
        func aLeaseIsSuspendedAfterHoldAware() throws {
            try Self.withDocument("wait=60s", "hold-aware=1s") { mount, document in
                let run = try Self.start(
                    mount, ["--write", "*.md", "--name", "slow"],
                    "echo ready; read line; echo mine >notes.md; echo written; read line")
                try eventually(within: .seconds(10), "the command to run") { run.text == "ready\n" }
                let writer = try Script("echo theirs >\"$1\"").start(document)
                try writer.wait(within: .seconds(20)).requireSuccess()
                try eventually(within: .seconds(10), "the notice: \(run.errorText)") {
                    run.errorText.contains("the leases of run 'slow' are suspended")
                }
                let before = try mount.counters.kept
                try run.type("\n")
                try eventually(within: .seconds(10), "the write") { run.text == "ready\nwritten\n" }
                #expect(try mount.counters.kept == before + 1)
                #expect(try FileContents.text(of: mount.below + "/notes.md") == "mine\n")
                try run.type("\n")
                try run.wait(within: .seconds(10)).requireSuccess()
            }
        }

        @Test("With `--uncoordinated` a command waits for no program, and what it destroys is preserved")
        func anUncoordinatedCommandWaitsForNoProgram() throws {
            try Self.withDocument("wait=60s", "hold=60s", "idle=60s") { mount, document in
                let holder = try ScriptedProcess()
                try holder.must("open", "w", document, "O_RDWR")
                try holder.must("write", "w", "unsaved work")
                let started = ContinuousClock.now
                let run = try Self.start(mount, ["--uncoordinated"], "echo over >notes.md; echo done")
                #expect(try run.wait(within: .seconds(20)).text == "done\n")
                #expect(ContinuousClock.now - started < .seconds(20))
                let counters = try mount.counters
                #expect(counters.proceeded == 1)
                #expect(counters.kept >= 1)
                try holder.must("close", "w")
            }
        }

        @Test("A run waits for an earlier run with overlapping globs, and begins when it ends")
        func aRunWaitsForAnEarlierRun() throws {
            try Self.withDocument("wait=60s", "hold-aware=60s") { mount, _ in
                let first = try Self.start(
                    mount, ["--write", "**", "--name", "first"], "echo ready; read line")
                try eventually(within: .seconds(10), "the first command to run") { first.text == "ready\n" }
                let second = try Self.start(mount, ["--read", "*.md", "--name", "second"], "echo ready")
                try eventually(within: .seconds(10), "the second run to wait") {
                    try TruceCommand.run("status", mount.path).text.contains("waits for an earlier run")
                }
                #expect(second.text == "")
                try first.type("\n")
                try first.wait(within: .seconds(10)).requireSuccess()
                #expect(try second.wait(within: .seconds(10)).text == "ready\n")
            }
        }

        @Test("TRUCE_ACTOR names a program without a run in `why`, and exempts it from no wait")
        func truceActorNamesAProgram() throws {
            try Self.withDocument("wait=60s", "hold=60s", "idle=60s") { mount, document in
                let named = ["TRUCE_ACTOR": "agent"]
                let holder = try ScriptedProcess(
                    Program("python3").start(
                        Checkout.path("Tests/Workers/actor"), with: named, input: .keyboard))
                try holder.must("open", "w", document, "O_RDWR")
                try holder.must("write", "w", "x")
                let other = try Program("cat").start(document, with: named)
                try mount.waitUntilParked(other.pid)
                let why = try TruceCommand.run("why", document).text
                #expect(why.contains("python3 (pid \(holder.pid)) as 'agent' has had"), "\(why)")
                try holder.must("close", "w")
                try other.wait(within: .seconds(10)).requireSuccess()
            }
        }

        @Test("`truce run` ends with the exit code of its command, passes SIGTERM on, and leaves no run")
        func truceRunEndsWithTheExitCodeOfItsCommand() throws {
            try Self.withDocument { mount, _ in
                for (command, code) in [
                    ("exit 3", 3), ("kill -KILL $$", 128 + SIGKILL), ("exec /none/such", 127),
                ] {
                    let ended = try Self.start(mount, [], command).wait(within: .seconds(10))
                    #expect(ended.ending == .exited(code), "\(ended.errorText)")
                }
                let run = try Self.start(
                    mount, ["--write", "**"],
                    "trap 'exit 9' TERM; echo ready; while true; do read -r -t 1 line || true; done")
                try eventually(within: .seconds(10), "the command to run") { run.text == "ready\n" }
                run.send(SIGTERM)
                #expect(try run.wait(within: .seconds(10)).ending == .exited(9))
                #expect(try !TruceCommand.run("status", mount.path).text.contains("documents held"))
            }
        }

        @Test(
            "`truce run` refuses a wrong command line with 125 and a reason, and does not run the command",
            arguments: [
                (["--write", "[a", "--"], "'[a' has '[' without ']'"),
                (["--write", "a**", "--"], "'**' beside"),
                (["--read", "", "--"], "a glob is empty"), (["--write", "sub", "--"], "is a directory"),
                (["--write", "sub/", "--"], "ends with a slash"),
                (["--write", "/proc/x", "--"], "not in a folder"),
                (["--name", "", "--"], "--name takes from 1 to 64"), ([], "a COMMAND is missing"),
            ])
        func aWrongCommandLineIsRefused(arguments: [String], reason: String) throws {
            try Self.withDocument { mount, _ in
                try Program("mkdir").run(mount.path + "/sub")
                let command = arguments.isEmpty ? [] : ["touch", "made"]
                let binary = try Lab.variable("TRUCE_BINARY")
                let ended = try Script("cd \"$1\"; shift; exec \"$@\"")
                    .attempt(arguments: [mount.path, binary, "run"] + arguments + command)
                #expect(ended.ending == .exited(125), "\(ended.errorText)")
                #expect(ended.errorText.contains(reason), "\(ended.errorText)")
                #expect(try Program("ls").run(mount.path).text == "notes.md\nsub\n")
            }
        }

        @Test("`truce run` outside of a mount is refused")
        func aRunOutsideOfAMountIsRefused() throws {
            let refused = try Script("cd /; exec \"$1\" run -- true").attempt(
                try Lab.variable("TRUCE_BINARY"))
            #expect(refused.ending == .exited(125))
            #expect(refused.errorText.contains("not in a folder mounted by truce"), "\(refused.errorText)")
        }

        private static func withDocument(
            _ options: String..., body: (MountedDirectory, _ document: String) throws -> Void
        ) throws {
            let mount = try MountedDirectory(options)
            do {
                try FileContents.write("old\n", to: mount.path + "/notes.md")
                try mount.mount()
                try body(mount, mount.path + "/notes.md")
                try mount.unmount()
            } catch {
                mount.abandon()
                throw error
            }
        }

        /// Starts `truce run` with a shell command. The working directory is the root of the mount.
        private static func start(
            _ mount: MountedDirectory, _ options: [String], _ command: String
        ) throws -> RunningProgram {
            try Script("cd \"$1\"; shift; exec \"$@\"").start(
                arguments: [mount.path, try Lab.variable("TRUCE_BINARY"), "run"] + options + [
                    "--", "bash", "-c", command,
                ], input: .keyboard)
        }
    }
}
