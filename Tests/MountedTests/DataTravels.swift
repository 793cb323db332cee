// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

extension Mounted {
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

        @Test(
            "Reading moves the time of access if the source's mount says so",
            arguments: [("noatime", false), ("strictatime", true)])
        func accessTime(option: String, moves: Bool) throws {
            guard geteuid() == 0 else {
                return print("only root mounts a source with \(option): shown by the run as root")
            }
            let filesystem = try LoopFilesystem(inodes: 1000, options: option)
            let mount = try MountedDirectory(in: filesystem.path)
            do {
                try Script("echo text >\"$1\"/file; touch --time=access --date=@1000000000 \"$1\"/file")
                    .run(mount.path)
                try mount.mount()
                try Program("cat").run(mount.path + "/file")
                let times = try [mount.path, mount.below].map {
                    try Program("stat").run("--format=%X", $0 + "/file").text
                }
                #expect((times[0] != "1000000000\n") == moves)
                #expect(times[0] == times[1])
                try mount.unmount()
            } catch {
                mount.abandon()
                throw error
            }
            withExtendedLifetime(filesystem) {}
        }
    }
}
