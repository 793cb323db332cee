// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// Guarantees, "Every wait ends": a program that waits for a document blocks no access to other files. The kernel holds a
    /// directory's lock during most requests, so a request must not wait while this lock is held.
    @Suite struct WaitIsolationTests {
        /// The forms in which a request names its file: by its path, in the current directory, below a descriptor, or in the
        /// mount's root. A test of one form takes half a minute, so each data mode tests only two forms.
        static var forms: [String] {
            (try? Lab.dataPath) == .passthrough ? ["path", "descriptor"] : ["name", "root"]
        }
        static let kinds = [
            "open", "open-truncating", "open-appending", "truncate", "unlink", "rename", "rename-over",
            "rename-away", "rename-here", "exchange", "rmdir", "create", "rename-to-missing", "mkdir",
            "mknod",
            "symlink", "link",
        ]

        @Test(
            "While a request waits, other requests continue, in whatever form the waiting request names its file",
            arguments: forms)
        func otherRequestsProceedWhileARequestWaits(form: String) throws {
            try MountedDirectory.with("wait=60s", "hold-aware=60s") { mount in
                let worker = try ScriptedProcess(
                    Program("python3").start(
                        Checkout.path("Tests/Workers/blocking"), mount.path, mount.below, input: .keyboard))
                var cells = 0
                // No system call truncates a file by a name below a descriptor.
                for kind in Self.kinds where (form, kind) != ("descriptor", "truncate") {
                    cells += try Self.probe(form, kind, worker, mount)
                }
                let counters = try mount.status().counters
                print("\(form): \(cells) requests went on while one waited; \(counters.summary)")
                #expect(counters.parkedUnderLock == 0)
                #expect(counters.proceeded == 0)
                #expect(counters.forfeited == 0)
            }
        }

        /// The kernel gives no pid for a process of another pid namespace, and without a pid a request is not retried.
        @Test(
            "A request that cannot be retried waits at most 250 ms, and creates files with its program's rights"
        )
        func aRequestThatCannotBeRetriedWaitsAtMost250Milliseconds() throws {
            guard geteuid() == 0 else {
                return print("only root can act as others: shown by the run as root")
            }
            let source = try Lab.freshDirectory("source")
            let place = try Lab.freshDirectory("place")
            try Script("mkdir -m 777 \"$1/letter.textbundle\"").run(source)
            let daemon = try Self.elsewhere.start(
                try Lab.variable("TRUCE_BINARY"), source, place, input: .keyboard)
            try eventually(within: .seconds(20), "the package to be held\n\(daemon.errorText)") {
                daemon.text.hasSuffix("held\n") || daemon.hasEnded
            }
            for (command, kind) in [
                ("mkdir -m 750 new", "750 12345"), ("umask 077; echo x >file", "600 12345"),
            ] {
                let (_, took) = try timed {
                    try Program("setpriv").run(
                        "--reuid", "12345", "--clear-groups", "sh", "-c", command,
                        at: place + "/letter.textbundle")
                }
                print("'\(command)' went ahead after \(took.milliseconds) ms (bound 250 ms)")
                #expect(took < .seconds(10))
                let name = try #require(command.split { " >".contains($0) }.last)
                let found = try Program("stat").run(
                    "--format", "%a %u", source + "/letter.textbundle/\(name)")
                #expect(found.text == kind + "\n")
            }
            try daemon.type("\n")
            try daemon.wait(within: .seconds(20)).requireSuccess()
        }

        /// A script that runs a daemon, and a command that holds a package, in a new pid namespace.
        private static let elsewhere = Script(
            """
            exec unshare --pid --fork --kill-child bash -c '
                "$0" mount -f -o allow_other,wait=60s,hold-aware=60s "$1" "$2" &
                until mountpoint -q "$2"; do kill -0 $! || exit 1; done
                "$0" write "$2/letter.textbundle" -- bash -c "echo held; read line"
                fusermount3 -u "$2"
                wait $!
            ' "$1" "$2" "$3"
            """)

        /// Lets a request wait for a document. Returns the number of other requests that the worker made meanwhile.
        private static func probe(
            _ form: String, _ kind: String, _ worker: ScriptedProcess, _ mount: MountedDirectory
        ) throws -> Int {
            let document = mount.path + "/" + (try worker.ask("make", form, kind))
            let holder = try Script("exec \"$1\" write \"$2\" -- bash -c \"$3\"").start(
                try Lab.variable("TRUCE_BINARY"), document, "echo held; read line", input: .keyboard)
            try eventually(within: .seconds(10), "'\(document)' to be held: \(holder.errorText)") {
                holder.text == "held\n"
            }
            let asking = try #require(pid_t(worker.ask("ask")))
            try mount.waitUntilParked(asking)
            let words = try worker.ask("probe", within: .seconds(400)).split(separator: " ", maxSplits: 1)
            #expect(words.count == 1, "while \(form) \(kind) waited: \(words.last ?? "")")
            #expect(try mount.status().waiting.contains { $0.actor.pid == asking }, "\(form) \(kind)")
            try holder.type("\n")
            try holder.wait(within: .seconds(10)).requireSuccess()
            #expect(try worker.ask("end") == "ok", "\(form) \(kind)")
            return words.first.flatMap { Int($0) } ?? 0
        }
    }
}
