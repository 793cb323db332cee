// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

/// Checks programs that need no turns: programs that lock a file (rule X6: a lock replaces turns), and programs that only
/// append to a file.
extension MountTests {
    @Suite struct ApplicationLockTests {
        /// Mount options with very long limits of time. A program that waits wrongly then waits so long that the test fails.
        static let patient = "wait=60s,hold=60s,idle=60s"
        static let soon = Duration.seconds(10)

        private static func holder(_ mount: MountedDirectory, _ flags: String, _ kind: String) throws
            -> ScriptedProcess
        {
            let actor = try ScriptedProcess()
            try actor.must("open", "h", mount.path + "/data", flags)
            try actor.must("lock", "h", kind)
            return actor
        }

        private static func write(_ text: String) -> (String) throws -> Void {
            { source in try FileContents.write(text, to: source + "/data") }
        }

        @Test(
            "A second run of a script that locks a file does not wait to open the lock file",
            arguments: [">", ">>", "<>"])
        func anOpenOfALockedLockFileDoesNotWait(redirection: String) throws {
            try MountedDirectory.with(Self.patient) { mount in
                let holder = try Script(
                    "cd \"$1\"; eval \"exec 9$2\"job.lck; flock -n 9; echo locked; sleep 60; true"
                ).start(mount.path, redirection)
                let second = Script("cd \"$1\"; eval \"exec 9$2\"job.lck; flock -n 9; echo locked")
                try eventually(within: Self.soon, "the lock") { holder.text == "locked\n" }
                for _ in 1...2 {
                    let (outcome, took) = try timed {
                        try second.attempt(mount.path, redirection, within: Self.soon)
                    }
                    print("'exec 9\(redirection)job.lck; flock -n 9' took \(took.milliseconds) ms")
                    #expect(outcome.ending == .exited(1))
                }
                try holder.end()
                #expect(try second.run(mount.path, redirection).text == "locked\n")
                #expect(try mount.counters.kept == 0)
                checkForcedSteps(try mount.status())
            }
        }

        @Test(
            "A program whose name differs from the lock holder's waits at most the `idle` time to open the locked lock file"
        )
        func aProgramWithAnotherNameWaitsAtMostTheIdleTimeToOpenALockFile() throws {
            try MountedDirectory.with("wait=60s,hold=60s,idle=1s") { mount in
                let lock = mount.path + "/job.lck"
                let holder = try Script("exec 9>\"$1\"; flock -n 9; echo locked; sleep 60").start(lock)
                try eventually(within: Self.soon, "the lock") { holder.text == "locked\n" }
                let actor = try ScriptedProcess()
                let (_, took) = try timed {
                    try actor.must("open", "h", lock, "O_WRONLY|O_CREAT|O_TRUNC", within: .seconds(11))
                }
                print("a program of another name waited \(took.milliseconds) ms (bound 1000 ms)")
                #expect(try actor.ask("lock", "h", "flock") == "EAGAIN")
                try holder.end()
                checkForcedSteps(try mount.status(), except: [.suspended])
            }
        }

        @Test(
            "If a program locks a file, programs that open the file take no turns and leave no versions",
            arguments: ["flock", "posix", "ofd"])
        func programsThatOpenALockedFileTakeNoTurns(kind: String) throws {
            try MountedDirectory.with(Self.patient, prepare: Self.write("0123456789")) { mount in
                let data = mount.path + "/data"
                let (one, two, three) = (
                    try Self.holder(mount, "O_RDWR", kind), try ScriptedProcess(), try ScriptedProcess()
                )
                try one.must("write", "h", "one")
                for _ in 1...2 {
                    try two.must("open", "h", data, "O_RDWR", within: Self.soon)
                    #expect(try two.ask("lock", "h", kind) == "EAGAIN")
                    try two.must("write", "h", "two")
                    try two.must("close", "h")
                }
                // `three` is another process with the same program name, and only reads.
                #expect(try three.must("read", data, within: Self.soon) == "two3456789")
                try one.must("close", "h")
                // The daemon has already noticed that these programs lock the file, so none of the three programs waits.
                for actor in [one, two, three] {
                    try actor.must("open", "h", data, "O_RDWR", within: Self.soon)
                }
                for actor in [one, two, three] {
                    try actor.must("write", "h", "new")
                    try actor.must("close", "h")
                }
                let status = try mount.status()
                #expect(status.counters.kept == 0)
                // Only two opens waited: the first open by `two`, and the open by `three`. After these waits, the daemon had
                // noticed the locks.
                #expect(status.counters.waited == 2)
                checkForcedSteps(status)
            }
        }

        @Test(
            "A program waits the `idle` time for a document that an editor has locked, and overwritten contents are preserved"
        )
        func anotherProgramWaitsAtMostTheIdleTimeToUseALockedDocument() throws {
            try MountedDirectory.with("wait=60s,hold=60s,idle=1s", prepare: Self.write("old")) { mount in
                let data = mount.path + "/data"
                let (editor, other) = (try Self.holder(mount, "O_RDWR", "posix"), try ScriptedProcess())
                try editor.must("write", "h", "written by the editor")
                try other.tell("put", data, "put by another")
                try mount.waitUntilParked(other.pid)
                #expect(try FileContents.text(of: mount.below + "/data") == "written by the editor")
                #expect(try other.answer(within: .seconds(11)) == "ok")
                try eventually(within: Self.soon, "two versions") { try mount.counters.kept == 2 }
                let texts = try mount.kept("data").map { id, _ in try mount.text(ofKept: id) }
                #expect(Set(texts) == ["written by the editor", "put by another"])
                try editor.must("close", "h")
                checkForcedSteps(try mount.status(), except: [.suspended])
            }
        }

        @Test("A lock on a descriptor that may only read does not exempt other programs from waiting")
        func aLockOnAReadOnlyDescriptorExemptsNoOtherProgram() throws {
            try MountedDirectory.with(Self.patient, prepare: Self.write("old")) { mount in
                let data = mount.path + "/data"
                let (owner, other) = (try ScriptedProcess(), try ScriptedProcess())
                try owner.must("open", "r", data, "O_RDONLY")
                try owner.must("share", "r")
                try owner.must("open", "h", data, "O_RDWR")
                try owner.must("write", "h", "new")
                try other.tell("open", "h", data, "O_RDWR")
                try mount.waitUntilParked(other.pid)
                // While a program waits, the daemon checks repeatedly whether the holder locks the file, with growing pauses.
                let looked = try mount.counters.identified
                try eventually(within: Self.soon, "looks at the holder of the file") {
                    try mount.counters.identified > looked + 4
                }
                #expect(!other.isDone)
                try owner.must("close", "h")
                #expect(try other.answer() == "ok")
                try owner.must("close", "r")
                #expect(try mount.counters.kept == 0)
                checkForcedSteps(try mount.status(), except: [.suspended])
            }
        }

        @Test("Programs that have one LMDB environment open do not wait for each other")
        func programsWithOneLmdbEnvironmentOpenDoNotWaitForEachOther() throws {
            try MountedDirectory.with(Self.patient) { mount in
                let environment = mount.path + "/environment"
                try Program("mkdir").run(environment)
                let load = { try Program("mdb_load").start("-T", environment, input: .keyboard) }
                let one = try load()
                try eventually(within: Self.soon, "the environment") {
                    FileContents.ofFile(mount.below + "/environment/data.mdb").map { $0.count > 0 } ?? false
                }
                let (_, took) = try timed {
                    try Program("mdb_stat").run("-e", environment, within: Self.soon)
                }
                print("a second program opened the environment in \(took.milliseconds) ms")
                let two = try load()
                for (number, program) in [one, two].enumerated() {
                    try program.type("key \(number)\nvalue\n")
                    program.endInput()
                    #expect(try program.wait(within: Self.soon).ending == .exited(0))
                }
                let text = try Program("mdb_stat").run(environment, within: Self.soon).text
                #expect(text.contains("Entries: 2\n"))
                let status = try mount.status()
                #expect(status.counters.kept == 0)
                checkForcedSteps(status)
            }
        }

        @Test("Programs append to one file at the same time, and each line is in the file once")
        func programsMayAppendToOneFileAtTheSameTime() throws {
            try MountedDirectory.with(Self.patient) { mount in
                let results = mount.path + "/results.csv"
                // Each program has the file open until the next program has opened it.
                let run = try Script(
                    """
                    for number in {1..24}; do echo $number; done |
                        xargs --max-procs=6 --replace={} bash -c '(echo {}; sleep 0.05; echo {}) >>"$0"' "$1"
                    """
                ).start(results)
                #expect(try run.wait(within: Self.soon).ending == .exited(0))
                let lines = try FileContents.text(of: results).split(separator: "\n").compactMap { Int($0) }
                #expect(lines.sorted() == (1...24).flatMap { [$0, $0] })
                let status = try mount.status()
                #expect(status.counters.waited == 0)
                #expect(status.counters.kept == 0)
                checkForcedSteps(status)
            }
        }

        @Test("A reader does not wait for a program that only appends, but a writer does")
        func readersDoNotWaitForAppenders() throws {
            try MountedDirectory.with(Self.patient) { mount in
                let output = mount.path + "/nohup.out"
                let (program, writer) = (try ScriptedProcess(), try ScriptedProcess())
                try program.must("open", "h", output, "O_WRONLY|O_CREAT|O_APPEND")
                try program.must("write", "h", "begun ")
                #expect(try Program("tail").run("-n", "1", output, within: Self.soon).text == "begun ")
                #expect(try mount.counters.waited == 0)
                try writer.tell("put", output, "new")
                try mount.waitUntilParked(writer.pid)
                try program.must("write", "h", "and ended")
                #expect(try FileContents.text(of: mount.below + "/nohup.out") == "begun and ended")
                try program.must("close", "h")
                #expect(try writer.answer() == "ok")
                checkForcedSteps(try mount.status())
            }
        }

        @Test("Other programs' appended data is preserved before an appending program truncates the file")
        func appendedDataIsPreservedBeforeATruncation() throws {
            try MountedDirectory.with(Self.patient, prepare: Self.write("old")) { mount in
                let data = mount.path + "/data"
                let (one, two) = (try ScriptedProcess(), try ScriptedProcess())
                for actor in [one, two] { try actor.must("open", "h", data, "O_WRONLY|O_APPEND") }
                try one.must("write", "h", " one")
                try two.must("write", "h", " two")
                try two.must("size", "h", "0", within: Self.soon)
                #expect(try FileContents.text(of: mount.below + "/data") == "")
                let texts = try mount.kept("data").map { id, _ in try mount.text(ofKept: id) }
                #expect(texts == ["old one two"])
                checkForcedSteps(try mount.status(), except: [.proceeded])
            }
        }

        @Test(
            "Other programs' appended data is preserved before an appending program overwrites other parts of the file"
        )
        func appendedDataIsPreservedBeforeAnOverwrite() throws {
            guard try Lab.dataPath == .daemon else { return }
            try MountedDirectory.with(Self.patient, prepare: Self.write("old")) { mount in
                let data = mount.path + "/data"
                let (one, two) = (try ScriptedProcess(), try ScriptedProcess())
                for actor in [one, two] { try actor.must("open", "h", data, "O_WRONLY|O_APPEND") }
                try one.must("write", "h", " one")
                try two.must("clear", "h")
                try two.must("place", "h", "new")
                #expect(try FileContents.text(of: mount.below + "/data") == "new one")
                let texts = try mount.kept("data").map { id, _ in try mount.text(ofKept: id) }
                #expect(texts == ["old one"])
                checkForcedSteps(try mount.status())
            }
        }
    }
}
