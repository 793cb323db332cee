// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

extension Mounted {
    /// What was written is what is read from then on, by whichever way and whoever moves the data.
    @Suite struct DataOrder {
        @Test(
            "Once a write has returned, other processes read what it has written",
            arguments: [(writers: 1, readers: 6, offset: 56), (writers: 2, readers: 4, offset: 0)])
        func ring(processes: (writers: Int, readers: Int, offset: Int)) throws {
            try MountedDirectory.with { mount in
                let outcome = try Self.work(
                    on: mount, "ring", "4", "\(processes.writers)", "\(processes.readers)",
                    "\(processes.offset)")
                print("\(processes): \(outcome.text)", terminator: "")
                #expect(outcome.isSuccess, "\(outcome.text)\(outcome.errorText)")
                try mount.checkDataPath()
                checkForced(try mount.status())
            }
        }

        @Test(
            "Whatever several processes do to one file, each finds what was done to it last",
            arguments: [2, 4])
        func mixed(processes: Int) throws {
            try MountedDirectory.with { mount in
                let seed = UInt64.random(in: 0..<UInt64.max)
                let outcome = try Self.work(on: mount, "mixed", "4", "\(processes)", "\(seed)")
                print("\(processes) processes, \(outcome.text)", terminator: "")
                #expect(outcome.isSuccess, "\(outcome.text)\(outcome.errorText)")
                try mount.checkDataPath()
                checkForced(try mount.status())
            }
        }

        @Test("SQLite shows each reader a whole state while others write, and the database stays in order")
        func database() throws {
            try MountedDirectory.with { mount in
                let outcome = try Program("python3").start(
                    Checkout.path("Tests/Workers/wal"), mount.path + "/accounts.db", "3", "3", "600"
                ).wait(within: .seconds(120), for: "the commits")
                print(outcome.text, terminator: "")
                #expect(outcome.isSuccess, "\(outcome.text)\(outcome.errorText)")
            }
        }

        private static func work(on mount: MountedDirectory, _ words: String...) throws -> Outcome {
            // Programs take no turns with a database, so that all have it open at the same time.
            try BuiltProgram.start("DataWorker", arguments: [mount.path + "/shared.db"] + words, input: .none)
                .wait(within: .seconds(60), for: "the end of \(words)")
        }
    }
}
