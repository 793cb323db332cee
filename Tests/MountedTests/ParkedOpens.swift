// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

extension Mounted {
    /// Evidence 5: a parked request holds no thread.
    @Suite struct Parking {
        static let opens = 1_000

        @Test("5. A thousand opens wait for one file without a thread, and all go on once it is released")
        func thousand() throws {
            // Bounds longer than the test: nothing but the release lets anybody in.
            try MountedDirectory.with("wait=600s,hold=600s,idle=600s") { mount in
                let file = mount.path + "/held"
                let holding = try Board()
                let holder = try Worker(holding, row: 1, "hold", "truncated", file)
                try holder.waitUntilReady()
                // The first open that waits starts the threads that look at programs: eight, however many opens wait.
                let idle = try #require(ProcessStatus(of: mount.daemonPID)).threads ?? 0
                let first = try Worker(Board(), row: 1, "park", file, "1")
                try eventually(within: .seconds(10), "the threads that look at programs") {
                    try ProcessStatus(of: mount.daemonPID)?.threads == idle + 8
                }
                let before = try #require(ProcessStatus(of: mount.daemonPID))
                let waitedBefore = try mount.counters.waited

                let crowd = try Worker(Board(), row: 1, "park", file, String(Self.opens))
                try eventually(within: .seconds(60), "\(Self.opens) opens to wait") {
                    try mount.counters.waited - waitedBefore >= Self.opens
                }
                let parked = try mount.status()
                let during = try #require(ProcessStatus(of: mount.daemonPID))
                #expect(parked.waiting.count == Self.opens + 1)
                #expect(crowd[.opened] == 0, "granted before the release")

                holding.stop()
                let took = try eventually(within: .seconds(20), "all opens to be granted") {
                    crowd[.opened] + crowd.failures == Self.opens
                }
                try crowd.finish()
                try first.finish()
                try holder.finish()
                let status = try mount.status()
                print(
                    "5. \(Self.opens) parked opens were granted within \(took.milliseconds) ms of the release; threads"
                        + " of the daemon \(before.threads ?? 0), with all parked \(during.threads ?? 0); resident"
                        + " \(before["VmRSS"] ?? ""), with all parked \(during["VmRSS"] ?? "")")
                #expect(crowd[.opened] == Self.opens, "\(crowd.failures) failed: \(crowd.lastError)")
                // Eight more begin the opens of a user with many that wait, in turn, however many these are.
                #expect(during.threads == before.threads.map { $0 + 8 })
                #expect(status.waiting.isEmpty)
                try mount.checkDataPath()
                checkForced(status)
            }
        }
    }
}
