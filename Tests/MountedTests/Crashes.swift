// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import TestSupport
import Testing

/// The daemon killed by SIGKILL: what was acknowledged is there, nobody hangs, and the next mount works.
extension Mounted {
    @Suite struct Crashes {
        static let deaths: Set<String> = ["ENOTCONN", "ECONNABORTED"]

        @Test("What was acknowledged before the daemon was killed is there")
        func acknowledged() throws {
            let seed = UInt64.random(in: 1...999_999_999)
            print("seeds \(seed) and following; Tests/Workers/ledger repeats the steps of a seed")
            var random = SystemRandomNumberGenerator()
            let mount = try MountedDirectory(["wait=5s,hold=300ms,idle=50ms"])
            do {
                try mount.mount()
                for round in 0..<20 {
                    let moment = Duration.milliseconds(Int.random(in: 20...500, using: &random))
                    try kill(mount, after: moment, seed: "\(seed + UInt64(round))")
                }
                try mount.unmount()
            } catch {
                mount.abandon()
                throw error
            }
        }

        /// One round: programs work and hold, the daemon dies at a moment that is anybody's guess, the next one
        /// mounts, and what is below is compared with the ledger.
        private func kill(_ mount: MountedDirectory, after moment: Duration, seed: String) throws {
            let place = try Lab.freshDirectory("ledger")
            let ledger = place + "/ledger"
            let script = Checkout.path("Tests/Workers/ledger")
            let directory = mount.path + "/" + seed
            try Program("mkdir").run(directory, place + "/kept")
            let holder = try Program("python3").start(script, "hold", directory, place + "/marks", seed)
            let worker = try Program("python3").start(script, "work", directory, ledger, seed)
            try eventually(within: .seconds(20), "the first steps of ledger \(seed)\n\(worker.errorText)") {
                (Contents.ofFile(ledger)?.filter { $0 == UInt8(ascii: "\n") }.count ?? 0) > 4
            }
            usleep(UInt32(moment.milliseconds) * 1000)
            // @sleep: the random moment at which the daemon dies; whatever has happened until then is right.
            try mount.kill()
            _ = try worker.wait(within: .seconds(10), for: "the end after the daemon's death")
            _ = try holder.wait(within: .seconds(10), for: "the end after the daemon's death")

            try mount.mount()
            for (id, _) in try mount.kept(seed) { try mount.restore(id, to: "\(place)/kept/\(id)") }
            let outcome = try Program("python3").attempt(
                script, "check", "\(mount.below)/\(seed)", ledger, place + "/marks", place + "/kept")
            print("seed \(seed), killed after \(moment.milliseconds) ms: \(outcome.text)", terminator: "")
            let isRight = outcome.isSuccess
            #expect(isRight, "seed \(seed)\n\(outcome.text)\(outcome.errorText)")
        }

        @Test(
            "Programs that wait when the daemon dies are told at once, and the next mount says what it replaces"
        )
        func waiting() throws {
            let mount = try MountedDirectory(["wait=60s,hold=60s,idle=60s"])
            defer { mount.abandon() }
            let document = mount.path + "/document"
            try Contents.write("old\n", to: document)
            try mount.mount()
            let holder = try Actor()
            try holder.must("open", "h", document, "O_WRONLY|O_TRUNC")
            try holder.must("write", "h", "acknowledged")
            let waiters = try (0..<3).map { _ in try Actor() }
            try waiters[0].tell("read", document)
            try waiters[1].tell("open", "w", document, "O_WRONLY|O_TRUNC")
            try waiters[2].tell("truncate", document, "1")
            for waiter in waiters { try mount.waitUntilParked(waiter.pid) }

            let (_, took) = try timed {
                try mount.kill()
                for waiter in waiters { #expect(Self.deaths.contains(try waiter.answer())) }
            }
            print("three waiting programs were told after \(took.milliseconds) ms")
            #expect(took < .seconds(10))
            #expect(try Contents.text(of: mount.below + "/document") == "acknowledged")
            #expect(Self.deaths.contains(try waiters[0].ask("read", document)))
            try mount.checkHandleSurvives(holder)
            try Self.replace(mount)
        }

        /// Mounts as a person does after a crash.
        private static func replace(_ mount: MountedDirectory) throws {
            let outcome = try TruceCommand.run("mount", mount.path)
            #expect(outcome.text.contains("took away a dead mount at '\(mount.path)'"), "\(outcome.text)")
            #expect(try Program("cat").run(mount.path + "/document").text.hasPrefix("acknowledged"))
            let second = try TruceCommand.attempt("mount", mount.path)
            #expect(second.ending == .exited(1))
            try TruceCommand.run("unmount", mount.path)
            #expect(try !MountedDirectory.isMounted(mount.path))
        }

        @Test("A mount beside its source is replaced as well")
        func separateSource() throws {
            let source = try Lab.freshDirectory("source")
            let place = try Lab.freshDirectory("place")
            try TruceCommand.run("mount", source, place)
            let killed = try MountStatus(json: try TruceCommand.run("status", "--json", place).output).pid
            #expect(Glibc.kill(killed, SIGKILL) == 0)
            try eventually(within: .seconds(10), "the end of daemon \(killed)") {
                !MountedDirectory.isAlive(killed)
            }
            let outcome = try TruceCommand.run("mount", source, place)
            #expect(outcome.text.contains("took away a dead mount at '\(place)'"))
            try Script("echo again > \"$1/file\"").run(place)
            #expect(try Contents.text(of: source + "/file") == "again\n")
            try TruceCommand.run("unmount", place)
        }
    }
}

extension MountedDirectory {
    /// What is kept of a path in the mount and below it, as `truce kept --json` says: id and cause, newest first.
    func kept(_ name: String = "") throws -> [(id: String, cause: String)] {
        struct List: Decodable {
            struct Entry: Decodable {
                var id: String
                var cause: String
            }
            var entries: [Entry]
        }
        let output = try TruceCommand.run("kept", "--json", name.isEmpty ? path : path + "/" + name).output
        return try JSONDecoder().decode(List.self, from: Data(output)).entries.map { ($0.id, $0.cause) }
    }

    func restore(_ id: String, to target: String) throws {
        try TruceCommand.run("kept", path, "--restore", id, target)
    }

    /// With passthrough the kernel goes on writing without the daemon; else it says that there is none.
    func checkHandleSurvives(_ holder: Actor) throws {
        let answer = try holder.ask("write", "h", " and more")
        switch try Lab.dataPath {
        case .passthrough:
            #expect(answer == "ok")
            #expect(try Contents.text(of: below + "/document") == "acknowledged and more")
        case .daemon: #expect(Mounted.Crashes.deaths.contains(answer))
        }
    }
}
