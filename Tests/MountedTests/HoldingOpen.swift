// SPDX-License-Identifier: Apache-2.0
import Glibc
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
                let before = try #require(ProcessStatus(of: mount.daemonPID))
                let waitedBefore = try mount.counters.waited

                let crowd = try Worker(Board(), row: 1, "park", file, String(Self.opens))
                try eventually(within: .seconds(60), "\(Self.opens) opens to wait") {
                    try mount.counters.waited - waitedBefore >= Self.opens
                }
                let parked = try mount.status()
                let during = try #require(ProcessStatus(of: mount.daemonPID))
                #expect(parked.waiting.count == Self.opens)
                #expect(crowd[.opened] == 0, "granted before the release")

                holding.stop()
                let took = try eventually(within: .seconds(20), "all opens to be granted") {
                    crowd[.opened] + crowd.failures == Self.opens
                }
                try crowd.finish()
                try holder.finish()
                let status = try mount.status()
                print(
                    "5. \(Self.opens) parked opens were granted within \(took.milliseconds) ms of the release; threads"
                        + " of the daemon \(before.threads ?? 0), with all parked \(during.threads ?? 0); resident"
                        + " \(before["VmRSS"] ?? ""), with all parked \(during["VmRSS"] ?? "")")
                #expect(crowd[.opened] == Self.opens, "\(crowd.failures) failed: \(crowd.lastError)")
                #expect(during.threads == before.threads)
                #expect(status.waiting.isEmpty)
                try mount.checkDataPath()
                checkForced(status)
            }
        }
    }

    /// Evidence 8: with passthrough the contents never come by the daemon.
    @Suite struct DataTravels {
        @Test("8. 64 MiB written and read reach the daemon without passthrough, and not at all with it")
        func sixtyFourMebibytes() throws {
            try MountedDirectory.with(prepare: { directory in
                try Script("head -c 67108864 /dev/urandom > \"$1/original\"").run(directory)
            }) { mount in
                try Program("dd").run("if=original", "of=copy", "bs=1M", "status=none", at: mount.path)
                let sums = try Script("sha256sum < original; sha256sum < copy").run(at: mount.path).text
                let below = try Script("sha256sum < \"$1/copy\"").run(mount.below).text
                let lines = sums.split(separator: "\n")
                #expect(lines.count == 2 && lines[0] == lines[1])
                #expect(lines.first.map(String.init) == below.split(separator: "\n").first.map(String.init))
                let status = try mount.status()
                print(
                    "8. data by \(status.options.dataPath): READ \(status.counters.read), WRITE \(status.counters.write)"
                )
                switch try Lab.dataPath {
                case .passthrough:
                    #expect(status.counters.read == 0)
                    #expect(status.counters.write == 0)
                case .daemon:
                    #expect(status.counters.read > 0)
                    #expect(status.counters.write > 0)
                }
                try mount.checkDataPath()
                checkForced(status)
            }
        }
    }
}
