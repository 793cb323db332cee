// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import TestSupport
import Testing

extension Mounted {
    /// Very many threads wait for one file, and nobody else has to wait for them.
    @Suite struct Crowds {
        /// What the worker prints; times in milliseconds.
        private struct Outcome: Decodable {
            var quiet: Double
            var crowded: Double
            var opened: Int
            var failed: Int
            var killed: Int?
        }

        /// In milliseconds, far more than anything here takes on a busy machine.
        private static let most = 20_000

        /// If root runs this, the crowd is another user's.
        private static let others = geteuid() == 0 ? "allow_other," : ""

        private static func crowd(_ mount: MountedDirectory, isKilled: Bool) throws -> Outcome {
            let worker = Checkout.path("Tests/Workers/crowd")
            let run = try Program("python3").run(
                worker, mount.path, "3", "100", "30", isKilled ? "kill" : "")
            let outcome = try JSONDecoder().decode(Outcome.self, from: Data(run.output))
            print("crowds: \(outcome)")
            return outcome
        }

        @Test("When the time of 300 threads runs out at once, others write on, and each thread goes ahead")
        func runsOut() throws {
            guard try Lab.dataPath == .passthrough else {
                return print("shown where the kernel moves the data")
            }
            // The writer keeps its file for longer than a wait lasts.
            try MountedDirectory.with(Self.others + "wait=1s,hold=60s,idle=60s") { mount in
                let outcome = try Self.crowd(mount, isKilled: false)
                #expect(outcome.crowded < Double(Self.most))
                #expect(outcome.opened == 300)
                #expect(outcome.failed == 0)
            }
        }

        @Test("300 threads that wait are killed at once")
        func ends() throws {
            guard try Lab.dataPath == .daemon else {
                return print("shown where the daemon moves the data")
            }
            try MountedDirectory.with(Self.others + "wait=60s,hold=60s,idle=60s") { mount in
                let outcome = try Self.crowd(mount, isKilled: true)
                #expect(outcome.crowded < Double(Self.most))
                #expect(outcome.failed == 0)
                #expect(try #require(outcome.killed) < Self.most)
            }
        }
    }
}
