// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// If a file system below the mount does not answer, only programs that use its files are delayed.
    @Suite struct HungFilesystemTests {
        @Test(
            "While a request hangs in the file system below, requests for other files are answered"
        )
        func aHungRequestDelaysNoRequestForAnotherFile() throws {
            try Self.withSlow { mount, server in
                for round in 1...20 {
                    var asker: RunningProgram?
                    try Self.keeping(server, from: mount) {
                        asker = try Program("stat").start(mount.path + "/slow/missing-\(round)")
                    } whileKept: {
                        try Self.ask(mount, round)
                    }
                    _ = try asker?.wait(within: .seconds(20), for: "the end of the delayed program")
                }
            }
        }

        @Test(
            "While a request hangs and a single thread polls for requests, requests for other files are answered"
        )
        func aHungRequestDelaysNoRequestForAnotherFileWhileAThreadPolls() throws {
            let processors = try #require(Int(try Script("nproc").run().text.dropLast()))
            guard processors > 1 else {
                return print("no thread looks for requests where there is one processor")
            }
            try Self.withSlow { mount, server in
                let busy = try Program("python3").start(
                    "-c", Self.asking, mount.path + "/1", input: .keyboard)
                let device = try Self.device(of: try mount.daemonPID)
                var (looked, crowded) = (0, 0)
                for round in 1...20 {
                    try eventually(
                        within: .seconds(60), "a thread to look for requests, or others to want to run"
                    ) {
                        if try Self.isLooking(device) {
                            looked += 1
                            return true
                        }
                        // The test, the client and the daemon have three running threads, and the machine has at least two
                        // processors.
                        guard try Self.running() > processors + 1 else { return false }
                        crowded += 1
                        return crowded % 50 == 0
                    }
                    try Self.keeping(server, from: mount) {
                        // The test starts no new program here, because no thread polls for requests while a program starts.
                        try busy.type("\(mount.path)/slow/missing-\(round)\n")
                    } whileKept: {
                        try Self.ask(mount, round)
                    }
                    try eventually(within: .seconds(20), "the end of the delayed program") {
                        busy.text.split(separator: "\n").count == round
                    }
                }
                // At the end of its input the client prints the longest time that any of its opens took.
                busy.endInput()
                let outcome = try busy.wait(within: .seconds(10)).requireSuccess()
                let longest = try #require(outcome.text.split(separator: "\n").last.flatMap { Double($0) })
                print(
                    "a thread looked in \(looked) of 20 rounds; no open took longer than \(longest) seconds")
                #expect(longest < 10)
                #expect(looked > 0 || crowded >= 1000)
                // No client sends requests, so all threads of the daemon sleep.
                try eventually(within: .seconds(10), "no thread to look for requests") {
                    try !Self.isLooking(device)
                }
            }
        }

        @Test("The daemon ends with its connection, even if a request hangs in the file system below")
        func theDaemonEndsDespiteAHungRequest() throws {
            guard geteuid() == 0 else { return print("only root ends connections: shown by the run as root") }
            let control = try Lab.freshDirectory("connections")
            try Program("mount").run("-t", "fusectl", "none", control)
            defer { Self.unmount(control) }
            try Self.withSlow { mount, server in
                let daemon = try mount.daemonPID
                let number = try Program("mountpoint").run("--fs-devno", mount.path).text
                // The test aborts the connection, so the kernel will not report the close of this file to the daemon.
                let holder = try ScriptedProcess()
                try holder.must("open", "h", mount.path + "/1", "O_RDONLY")
                let minor = try #require(number.dropLast().split(separator: ":").last)
                var asker: RunningProgram?
                try Self.keeping(server, from: mount) {
                    asker = try Program("stat").start(mount.path + "/slow/missing")
                } whileKept: {
                    let (_, took) = try timed {
                        try Script("echo 1 >\"$1\"/abort; umount --lazy \"$2\"").run(
                            control + "/" + minor, mount.path)
                        try eventually(within: .seconds(11), "the daemon to end") {
                            kill(daemon, 0) != 0
                        }
                    }
                    print("the daemon ended \(took) after its connection (bound 1 s)")
                }
                _ = try asker?.wait(within: .seconds(20), for: "the end of the delayed program")
                withExtendedLifetime(holder) {}
                try mount.mount()
            }
        }

        /// Mounts a directory with a subdirectory `slow`, which is a file system served by a process. Gives this process to the
        /// body.
        static func withSlow(
            _ options: String = "relinquish=5s", _ body: (MountedDirectory, pid_t) throws -> Void
        ) throws {
            let lab = try Lab.freshDirectory("slow")
            try Script("mkdir -p \"$1\"/other/in{1..10}; touch \"$1\"/other/file").run(lab)
            var slow = ""
            // After the mount has ended, the path `slow` leads to this file system again.
            defer { unmount(slow) }
            try MountedDirectory.with(
                options,
                prepare: { source in
                    slow = source + "/slow"
                    try Script("mkdir \"$1\"/slow; touch \"$1\"/{1..20}").run(source)
                    try Program("bindfs").run("-n", lab + "/other", source + "/slow")
                }
            ) { mount in
                try body(mount, try server(of: lab + "/other"))
            }
        }

        /// Stops the server of the slow file system, and sends the given request. When the daemon waits for this server, runs
        /// the body.
        static func keeping(
            _ server: pid_t, from mount: MountedDirectory, _ ask: () throws -> Void,
            whileKept: () throws -> Void
        ) throws {
            let daemon = try mount.daemonPID
            kill(server, SIGSTOP)
            defer { kill(server, SIGCONT) }
            try ask()
            try eventually(within: .seconds(10), "the daemon to wait for the file system below") {
                try waits(daemon)
            }
            try whileKept()
        }

        /// Reads the attributes of a file, which must take less than 11 seconds.
        private static func ask(_ mount: MountedDirectory, _ file: Int) throws {
            let (_, took) = try timed {
                let stat = try Program("stat").start(mount.path + "/\(file)")
                _ = try stat.wait(within: .seconds(11), for: "another file's attributes").requireSuccess()
            }
            if file == 20 { print("another file's attributes came after \(took)") }
        }

        /// A Python program that opens a file again and again. Meanwhile it looks up each name that it reads from its input.
        private static let asking = """
            import os, sys, threading, time
            longest = 0
            def ask():
                global longest
                while True:
                    begin = time.monotonic()
                    os.close(os.open(sys.argv[1], os.O_RDONLY))
                    longest = max(longest, time.monotonic() - begin)
            threading.Thread(target=ask, daemon=True).start()
            for line in sys.stdin:
                print(os.path.exists(line.strip()), flush=True)
            print(longest)
            """

        /// The path of the entry in `/proc` for the descriptor from which the daemon reads requests.
        private static func device(of daemon: pid_t) throws -> String {
            let found = try Script(
                "for fd in /proc/\"$1\"/fd/*; do [[ $(readlink \"$fd\") != /dev/fuse ]] || echo \"${fd##*/}\"; done"
            ).run("\(daemon)").text
            guard let number = found.split(separator: "\n").first else { throw TestFailure("no /dev/fuse") }
            return "/proc/\(daemon)/fdinfo/\(number)"
        }

        /// True if reads of the descriptor do not block, which means that a thread of the daemon polls it.
        private static func isLooking(_ device: String) throws -> Bool {
            let words = try words(of: device)
            guard let name = words.firstIndex(of: "flags:"), let flags = Int32(words[name + 1], radix: 8)
            else {
                throw TestFailure("\(device) has no flags: \(words)")
            }
            return flags & O_NONBLOCK != 0
        }

        /// The number of threads of the machine that run or are ready to run.
        private static func running() throws -> Int {
            let words = try words(of: "/proc/loadavg")
            guard words.count > 3, let running = words[3].split(separator: "/").first.flatMap({ Int($0) })
            else {
                throw TestFailure("/proc/loadavg: \(words)")
            }
            return running
        }

        /// The words of a file. The test reads the file itself, because with another running program no thread polls for
        /// requests.
        private static func words(of path: String) throws -> [Substring] {
            let file = open(path, O_RDONLY)
            guard file >= 0 else { throw TestFailure("\(path) cannot be opened: \(errno)") }
            defer { close(file) }
            var bytes = [UInt8](repeating: 0, count: 256)
            let count = max(0, read(file, &bytes, bytes.count))
            return String(decoding: bytes.prefix(count), as: UTF8.self).split { $0.isWhitespace }
        }

        private static func unmount(_ path: String) {
            do {
                try Program("fusermount3").run("-u", path)
            } catch {
                Issue.record("\(error)")
            }
        }

        /// True if a thread of the process waits for the answer to a FUSE request.
        private static func waits(_ process: pid_t) throws -> Bool {
            try Script("cat /proc/\"$1\"/task/*/wchan").run("\(process)").text.contains("request_wait_answer")
        }

        private static func server(of directory: String) throws -> pid_t {
            let found = try Program("pgrep").run("--full", "bindfs -n " + directory).text
            guard let pid = pid_t(found.split(separator: "\n").first ?? "") else {
                throw TestFailure("no server of \(directory): '\(found)'")
            }
            return pid
        }
    }
}
