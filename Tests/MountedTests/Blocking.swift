// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

extension Mounted {
    /// Guarantee 2: who waits for a document keeps nobody from anything else. The kernel holds a directory's lock for most
    /// requests, so they must not wait under it.
    @Suite struct Blocking {
        /// How the request names its file: by its path, in the current directory, below a descriptor, or in the mount's root.
        static let forms = ["path", "name", "descriptor", "root"]
        static let kinds = [
            "open", "open-truncating", "open-appending", "truncate", "unlink", "rename", "rename-over",
            "rename-away", "rename-here", "exchange", "rmdir", "create", "rename-to-missing", "mkdir",
            "mknod",
            "symlink", "link",
        ]

        @Test("While one request waits everything else goes on, however it names its file", arguments: forms)
        func matrix(form: String) throws {
            try MountedDirectory.with("wait=60s", "hold-aware=60s") { mount in
                let worker = try Actor(
                    Program("python3").start(
                        Checkout.path("Tests/Workers/blocking"), mount.path, mount.below, input: .keyboard))
                var cells = 0
                // There is no truncate(2) below a descriptor.
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

        /// How many requests were tried while one waited.
        private static func probe(
            _ form: String, _ kind: String, _ worker: Actor, _ mount: MountedDirectory
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
            try holder.wait(within: .seconds(10)).succeeding()
            #expect(try worker.ask("end") == "ok", "\(form) \(kind)")
            return words.first.flatMap { Int($0) } ?? 0
        }
    }
}
