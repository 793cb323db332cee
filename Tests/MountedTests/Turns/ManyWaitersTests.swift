// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// Checks that very many threads which wait for one file delay no other program.
    @Suite struct ManyWaitersTests {
        /// The output of the worker, with times in milliseconds.
        private struct Outcome: Decodable {
            var quiet: Double
            var crowded: Double
            /// The number of opens that ended before the waiting threads were signalled.
            var early: Int?
            var opened: Int
            var failed: Int
            var taken: Int?
        }

        /// The longest allowed time of a request in milliseconds: 100 ms, and a margin of 10 s for a busy machine.
        /// `Scripts/crowd` checks the time without the margin.
        private static let most = 10_100.0

        /// The mount option `allow_other` if the test runs as root, because the waiting threads then belong to another user.
        private static let others = geteuid() == 0 ? "allow_other," : ""

        private static func openMany(_ path: String, threads: Int = 100, _ way: String...) throws -> Outcome {
            let worker = Checkout.path("Tests/Workers/crowd")
            let words = [worker, path, "3", "\(threads)", "30"] + way
            let run = try Script("exec python3 \"$@\"").attempt(arguments: words).requireSuccess()
            let outcome = try JSONDecoder().decode(Outcome.self, from: Data(run.output))
            print("many openers: \(outcome)")
            return outcome
        }

        @Test(
            "When the waits of 300 threads time out at the same time, each thread goes ahead and no other program is delayed"
        )
        func manyTimeoutsAtTheSameTimeDelayNoOtherProgram() throws {
            guard try Lab.dataPath == .passthrough else {
                return print("shown where the kernel moves the data")
            }
            // The writer holds the file for longer than the limit `wait`, so every wait times out.
            try MountedDirectory.with(Self.others + "wait=1s,hold=60s,idle=60s") { mount in
                let outcome = try Self.openMany(mount.path)
                #expect(outcome.crowded < outcome.quiet + Self.most)
                #expect(outcome.opened == 300)
                #expect(outcome.failed == 0)
            }
        }

        @Test("300 waiting threads that are killed end at once")
        func waitingThreadsThatAreKilledEndAtOnce() throws {
            guard try Lab.dataPath == .daemon else {
                return print("shown where the daemon moves the data")
            }
            try MountedDirectory.with(Self.others + "wait=60s,hold=60s,idle=60s") { mount in
                let outcome = try Self.openMany(mount.path, "kill")
                #expect(outcome.early == 0, "all of them wait")
                #expect(outcome.crowded < outcome.quiet + Self.most)
                #expect(Double(try #require(outcome.taken)) < Self.most)
            }
        }

        @Test("300 waiting threads get an error at once when the daemon gets SIGTERM")
        func waitingThreadsGetAnErrorWhenTheDaemonGetsSigterm() throws {
            guard try Lab.dataPath == .daemon else {
                return print("shown where the daemon moves the data")
            }
            let mount = try MountedDirectory([Self.others + "wait=60s,hold=60s,idle=60s"])
            defer { mount.abandon() }
            try mount.mount()
            let pid = try mount.daemonPID
            let outcome = try Self.openMany(mount.path, "end", "\(pid)")
            #expect(outcome.early == 0, "all of them wait")
            #expect(outcome.failed == 300)
            #expect(Double(try #require(outcome.taken)) < Self.most)
            try eventually(within: .seconds(10), "the end of daemon \(pid)") {
                !MountedDirectory.isAlive(pid)
            }
        }

        @Test("An open beyond a user's 1,024 waiting opens goes ahead, with a line in the log")
        func opensBeyondAUsersLimitOfWaitingOpensProceed() throws {
            // The user that mounted may have more waiting opens than other users, so the waiting threads must belong to another
            // user.
            guard geteuid() == 0, try Lab.dataPath == .passthrough else {
                return print("shown as root, where the kernel moves the data")
            }
            let directory = try Lab.freshDirectory("crowd")
            let options = Self.others + "wait=60s,hold=60s,idle=60s"
            let daemon = try TruceCommand.start("mount", "-f", "-o", options, directory)
            defer { daemon.send(SIGTERM) }
            try eventually(within: .seconds(20), "the mount of a daemon in the foreground") {
                try MountedDirectory.isMounted(directory)
            }
            let outcome = try Self.openMany(directory, threads: 400, "kill")
            #expect(try #require(outcome.early) > 0)
            try eventually(within: .seconds(10), "the line of an open beyond the share") {
                daemon.errorText.contains("went ahead: too many opens of user 200000 wait already: wanted")
            }
            try Program("umount").run(directory)
            try daemon.wait(within: .seconds(10)).requireSuccess()
        }
    }
}
