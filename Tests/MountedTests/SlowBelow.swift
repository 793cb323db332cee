// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

extension Mounted {
    /// A file system below that does not answer keeps those who ask for its files, and nobody else.
    @Suite struct SlowBelow {
        @Test(
            "While the file system below keeps one request, those for other files are served, again and again"
        )
        func others() throws {
            let lab = try Lab.freshDirectory("slow")
            try Script("mkdir \"$1\"/other; touch \"$1\"/other/file").run(lab)
            var slow = ""
            // By its path it is there again when the mount is gone.
            defer { Self.unmount(slow) }
            try MountedDirectory.with(prepare: { source in
                slow = source + "/slow"
                try Script("mkdir \"$1\"/slow; touch \"$1\"/{1..20}").run(source)
                try Program("bindfs").run("-n", lab + "/other", source + "/slow")
            }) { mount in
                let below = try Self.server(of: lab + "/other")
                for round in 1...20 {
                    kill(below, SIGSTOP)
                    defer { kill(below, SIGCONT) }
                    let asker = try Program("stat").start(mount.path + "/slow/missing-\(round)")
                    try eventually(within: .seconds(10), "the daemon to wait for the file system below") {
                        try Self.waits(try mount.daemonPID)
                    }
                    let (_, took) = try timed {
                        let stat = try Program("stat").start(mount.path + "/\(round)")
                        _ = try stat.wait(within: .seconds(11), for: "another file's attributes").succeeding()
                    }
                    if round == 20 { print("another file's attributes came after \(took)") }
                    kill(below, SIGCONT)
                    _ = try asker.wait(within: .seconds(20), for: "the end of who was kept")
                }
            }
        }

        private static func unmount(_ path: String) {
            do {
                try Program("fusermount3").run("-u", path)
            } catch {
                Issue.record("\(error)")
            }
        }

        /// Whether a thread of the process waits for an answer to a request of FUSE.
        private static func waits(_ process: pid_t) throws -> Bool {
            try Script("cat /proc/\"$1\"/task/*/wchan").run("\(process)").text.contains("request_wait_answer")
        }

        private static func server(of directory: String) throws -> pid_t {
            let found = try Program("pgrep").run("--full", "bindfs -n " + directory).text
            guard let pid = pid_t(found.split(separator: "\n").first ?? "") else {
                throw Failure("no server of \(directory): '\(found)'")
            }
            return pid
        }
    }
}
