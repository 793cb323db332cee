// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// Checks the end of a mount, and the errors of programs whose waits run out.
    @Suite struct MountEndTests {
        enum UnmountMethod: String, CaseIterable { case terminate, interrupt, umount, fusermount }

        @Test(
            "Each method of unmounting ends the daemon and leaves the written files",
            arguments: UnmountMethod.allCases)
        func everyUnmountMethodEndsTheDaemon(way: UnmountMethod) throws {
            let mount = try MountedDirectory([])
            defer { mount.abandon() }
            try mount.mount()
            try Script("echo 'what was written' >\"$1/document\"").run(mount.path)
            let pid = try mount.daemonPID
            #expect(ProcessStatus(of: pid)?["Name"] == "truce")
            switch way {
            case .terminate: kill(pid, SIGTERM)
            case .interrupt: kill(pid, SIGINT)
            case .umount: try Program("umount").run(mount.path)
            case .fusermount: try Program("fusermount3").run("-u", mount.path)
            }
            try eventually(within: .seconds(10), "the end of daemon \(pid) by \(way)") {
                !MountedDirectory.isAlive(pid)
            }
            #expect(try !MountedDirectory.isMounted(mount.path))
            #expect(try FileContents.text(of: mount.path + "/document") == "what was written\n")
        }

        /// If an open for reading failed, an editor would show an empty buffer. So an open for reading goes ahead when its wait
        /// times out.
        @Test("With policy=fail, a writer whose wait times out gets EBUSY and a reader goes ahead")
        func withPolicyFailAWriterWhoseWaitTimesOutGetsEbusy() throws {
            try MountedDirectory.with("wait=1s", "hold=60s", "idle=60s", "policy=fail") { mount in
                let document = mount.path + "/document"
                try Script("echo old >\"$1\"").run(document)
                let (holder, other) = (try ScriptedProcess(), try ScriptedProcess())
                try holder.must("open", "h", document, "O_WRONLY|O_TRUNC")
                let (refusal, writing) = try timed {
                    try other.ask("open", "w", document, "O_WRONLY|O_TRUNC")
                }
                #expect(refusal == "EBUSY")
                let (_, reading) = try timed { try other.must("open", "r", document, "O_RDONLY") }
                print("a writer was refused after \(writing), a reader went ahead after \(reading)")
                for took in [writing, reading] { #expect(took > .milliseconds(500) && took < .seconds(11)) }
                let status = try mount.status()
                #expect(status.counters.proceeded == 1)
                #expect(status.counters.waited == 2)
                checkForcedSteps(status, except: [.proceeded])
                try holder.must("close", "h")
                try other.must("close", "r")
            }
        }

        /// A program that is stopped in the middle of a request would prevent the system from going to sleep.
        @Test("The wait of a program that stays stopped ends after 1 s")
        func aStoppedProgramWaitsNoLongerThanOneSecond() throws {
            try MountedDirectory.with("wait=60s", "hold=60s", "idle=60s") { mount in
                let document = mount.path + "/document"
                try Script("echo old >\"$1\"").run(document)
                let (holder, waiter) = (try ScriptedProcess(), try ScriptedProcess())
                try holder.must("open", "h", document, "O_WRONLY|O_TRUNC")
                try waiter.tell("open", "r", document, "O_RDONLY")
                try mount.waitUntilParked(waiter.pid)
                waiter.program.send(SIGSTOP)
                let (_, took) = try timed {
                    try eventually(within: .seconds(11), "the stopped program to be let through") {
                        try mount.counters.proceeded == 1
                    }
                }
                print("a stopped program was let through after \(took)")
                waiter.program.send(SIGCONT)
                #expect(try waiter.answer().hasPrefix("ok"))
                try holder.must("close", "h")
                try waiter.must("close", "r")
                checkForcedSteps(try mount.status(), except: [.proceeded])
            }
        }

        @Test(
            "A wait of over 1 s makes one line in the log, with the waiting program, the time, the holder and the file"
        )
        func aLongWaitMakesOneLogLine() throws {
            let directory = try Lab.freshDirectory("log")
            let daemon = try TruceCommand.start("mount", "-f", "-o", "hold=1500ms,idle=60s", directory)
            defer { daemon.send(SIGTERM) }
            try eventually(within: .seconds(20), "the mount of a daemon in the foreground") {
                try MountedDirectory.isMounted(directory)
            }
            let (holder, other) = (try ScriptedProcess(), try ScriptedProcess())
            try Script("echo old >\"$1\"").run(directory + "/document")
            try holder.must("open", "h", directory + "/document", "O_WRONLY|O_TRUNC")
            try other.must("open", "r", directory + "/document", "O_RDONLY")
            try eventually(within: .seconds(10), "two lines of the log") {
                daemon.errorText.contains(#/ is suspended[^:]*: document/#)
                    && daemon.errorText.contains(" for python3 (\(holder.pid)): document")
            }
            let waits = daemon.errorText.split(separator: "\n").filter {
                $0.contains("python3 (\(other.pid)) waited ")
            }
            #expect(waits.count == 1, "\(daemon.errorText)")
            try holder.must("close", "h")
            try other.must("close", "r")
            try Program("umount").run(directory)
            try daemon.wait(within: .seconds(10)).requireSuccess()
        }

        @Test(
            "A mount at another place than its source shows changes made in the source within about a second")
        func aMountShowsChangesMadeInItsSourceWithinASecond() throws {
            let source = try Lab.freshDirectory("source")
            let place = try Lab.freshDirectory("place")
            try Script("echo one >\"$1/document\"").run(source)
            try TruceCommand.run("mount", source, place)
            defer { attemptUnmount(place) }
            try Program("stat").run(place + "/document")
            try Script("echo longer than before >\"$1/document\"").run(source)
            let (_, took) = try timed {
                try eventually(within: .seconds(11), "the new size through the mount") {
                    try Program("stat").run("--format=%s", place + "/document").text == "19\n"
                }
            }
            print("a change around the mount was seen after \(took)")
            #expect(try Program("cat").run(place + "/document").text == "longer than before\n")
        }

        @Test("`truce unmount` removes a bind mount at once and leaves the original mount")
        func unmountingABindMountLeavesTheOriginalMount() throws {
            guard geteuid() == 0 else { return print("only root can bind: shown by the run as root") }
            try MountedDirectory.with { mount in
                let copy = try Lab.freshDirectory("copy")
                try Program("mount").run("--bind", mount.path, copy)
                let (outcome, took) = try timed { try TruceCommand.attempt("unmount", copy) }
                print("a bind mount was taken away after \(took)")
                if try MountedDirectory.isMounted(copy) { try Program("umount").run("--lazy", copy) }
                try outcome.requireSuccess()
                #expect(outcome.errorText.isEmpty)
                #expect(try MountedDirectory.isMounted(mount.path))
                checkForcedSteps(try mount.status())
            }
        }

        /// The user that mounts may have a limit on file sizes, which applies to the daemon. Programs that write through the
        /// mount have their own limits.
        @Test("A write beyond the daemon's file size limit fails with EFBIG, and the mount goes on")
        func aWriteBeyondTheFileSizeLimitIsEfbig() throws {
            let directory = try Lab.freshDirectory("limit")
            defer { attemptUnmount(directory) }
            try Script("ulimit -f 64; exec \"$1\" mount -o data=daemon \"$2\"").run(
                try Lab.variable("TRUCE_BINARY"), directory)
            let outcome = try Script("dd if=/dev/zero of=\"$1/file\" bs=1M count=1").attempt(
                directory, with: ["LC_ALL": "C"])
            #expect(!outcome.isSuccess)
            #expect(outcome.errorText.contains("File too large"), "\(outcome.errorText)")
            try Script("echo alive >\"$1/other\"").run(directory)
            #expect(try Program("cat").run(directory + "/other").text == "alive\n")
        }

        private func attemptUnmount(_ place: String) {
            do { try TruceCommand.run("unmount", place) } catch { Issue.record(error) }
        }
    }
}
