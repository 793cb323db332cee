// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// Checks that readers see data immediately after it was written, on each data path.
    @Suite struct DataConsistencyTests {
        @Test(
            "After a write has returned, other processes read the written data",
            arguments: [(writers: 1, readers: 6, offset: 56), (writers: 2, readers: 4, offset: 0)])
        func completedWritesAreVisibleToOtherProcesses(processes: (writers: Int, readers: Int, offset: Int))
            throws
        {
            try MountedDirectory.with { mount in
                let outcome = try Self.work(
                    on: mount, "ring", "4", "\(processes.writers)", "\(processes.readers)",
                    "\(processes.offset)")
                print("\(processes): \(outcome.text)", terminator: "")
                #expect(outcome.isSuccess, "\(outcome.text)\(outcome.errorText)")
                try mount.checkDataPath()
                checkForcedSteps(try mount.status())
            }
        }

        @Test(
            "When several processes use one file, each process sees the result of the last operation",
            arguments: [2, 4])
        func eachProcessSeesTheResultOfTheLastOperationOnASharedFile(processes: Int) throws {
            try MountedDirectory.with { mount in
                let seed = UInt64.random(in: 0..<UInt64.max)
                let outcome = try Self.work(on: mount, "mixed", "4", "\(processes)", "\(seed)")
                print("\(processes) processes, \(outcome.text)", terminator: "")
                #expect(outcome.isSuccess, "\(outcome.text)\(outcome.errorText)")
                try mount.checkDataPath()
                checkForcedSteps(try mount.status())
            }
        }

        @Test("With SQLite, each reader sees consistent data while other processes write")
        func sqliteReadersSeeConsistentSnapshots() throws {
            try MountedDirectory.with { mount in
                let outcome = try Program("python3").start(
                    Checkout.path("Tests/Workers/wal"), mount.path + "/accounts.db", "3", "3", "600"
                ).wait(within: .seconds(120), for: "the commits")
                print(outcome.text, terminator: "")
                #expect(outcome.isSuccess, "\(outcome.text)\(outcome.errorText)")
            }
        }

        @Test(
            "A page that is dropped and read again during a write has the new contents after the write",
            arguments: ["slow-write", "slow-read"])
        func aPageRereadDuringAWriteIsCurrent(call: String) throws {
            guard geteuid() == 0, try Lab.dataPath == .daemon else {
                return print("shown by the run as root where data goes through the daemon")
            }
            try MountedDirectory.with { mount in
                let reader = try Program("python3").start(
                    Checkout.path("Tests/Workers/early-reads"), call, mount.path + "/shared.db",
                    input: .keyboard)
                try eventually(within: .seconds(10), "the pages\n\(reader.errorText)") {
                    reader.text == "ready\n"
                }
                let slow = call == "slow-write" ? "pwrite64:delay_enter" : "preadv2:delay_exit"
                let tracer = try Program("strace").start(
                    "--follow-forks", "--output=/dev/null", "--inject=\(slow)=2000000",
                    "--attach=\(mount.daemonPID)")
                try eventually(within: .seconds(10), "strace") { tracer.errorText.contains("attached") }
                let before = try mount.counters
                try reader.type("\n")
                try eventually(within: .seconds(10), "the first request\n\(reader.errorText)") {
                    let now = try mount.counters
                    return now.read > before.read || now.write > before.write
                }
                try reader.type("\n")
                let outcome = try reader.wait(within: .seconds(30), for: "the write and the reads")
                #expect(outcome.text == "ready\nnew\n", "\(outcome.text)\(outcome.errorText)")
                tracer.send(SIGTERM)
                _ = try tracer.wait(within: .seconds(10))
            }
        }

        private static func work(on mount: MountedDirectory, _ words: String...) throws -> ProgramResult {
            // Truce makes no program wait for a database, so all workers have it open at the same time.
            try BuiltProgram.start("DataWorker", arguments: [mount.path + "/shared.db"] + words, input: .none)
                .wait(within: .seconds(60), for: "the end of \(words)")
        }
    }
}
