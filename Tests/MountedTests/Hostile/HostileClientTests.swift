// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// Checks the control socket with clients that break the protocol in many different forms.
    @Suite struct HostileClientTests {
        /// The output of the program `hostile-clients`: the counts for each kind of hostile client, and the answer times of a
        /// well-behaved client.
        struct Figures: Decodable {
            struct Kind: Decodable {
                var errors: Int
                var closures: Int
            }
            var kinds: [String: Kind]
            var failures: [String]
            var roundTrips: Int
            var errors: Int
            /// The longest time that a well-behaved client waited for an answer, in milliseconds.
            var maximum: Double
            var median: Double
        }

        static let kinds = [
            "not JSON", "wrong types", "before initialize", "paths with ..", "NUL", "invalid UTF-8",
            "too long",
            "deep", "marks", "huge", "truncated",
        ]
        /// The reasons for which the daemon closes connections, as they are written to the log.
        static let reasons = [
            "a message may have at most 1048576 bytes", "the header has no Content-Length",
            "the last message is cut off",
        ]
        /// The memory in kB by which the daemon may grow. The allocator keeps a varying number of pages for later requests.
        static let margin = 8 << 10

        @Test(
            "Malformed input gets an error or closes its connection, and affects neither another client nor the daemon"
        )
        func malformedInputDelaysNoOtherClient() throws {
            guard try Lab.dataPath == .passthrough else {
                return print("messages are no file data: shown by the run with passthrough")
            }
            let mount = try ForegroundMount()
            defer { mount.abandon() }
            try FileContents.write("as it was\n", to: mount.path + "/document")
            let fresh = try mount.holdings()
            // The first rounds create resources that are made only once, such as threads and memory for the largest number of
            // messages at a time. This number differs between rounds, so the test plays three rounds.
            for seed in 1...3 { _ = try attack(mount, seed: seed) }
            let first = try settle(mount, descriptors: fresh.descriptors, kilobytes: .max)
            let seed = Int.random(in: 4...1_000_000)
            let figures = try attack(mount, seed: seed)
            // The memory that the allocator retains also varies. Memory up to the largest amount of the first three rounds is
            // no leak.
            let kilobytes = max(first.kilobytes + Self.margin, first.highest)
            let second = try settle(mount, descriptors: fresh.descriptors, kilobytes: kilobytes)
            print(
                "seed \(seed): \(figures.roundTrips) round trips, \(figures.errors) errors, maximum "
                    + "\(figures.maximum) ms, median \(figures.median) ms; daemon: \(fresh), then \(first), "
                    + "then \(second)")
            for reason in Self.reasons {
                #expect(mount.log.contains("closed: \(reason)"), "the log gives no such reason: \(reason)")
            }
            try checkFiles(mount)
            try mount.end()
        }

        private func attack(_ mount: ForegroundMount, seed: Int) throws -> Figures {
            let outcome = try Program("python3").run(
                Checkout.path("Tests/Workers/hostile-clients"), mount.socket, String(seed),
                within: .seconds(240))
            let figures = try JSONDecoder().decode(Figures.self, from: Data(outcome.output))
            #expect(figures.failures == [], "seed \(seed)")
            for kind in Self.kinds {
                let found = figures.kinds[kind].map { $0.errors + $0.closures } ?? 0
                #expect(found >= 12, "seed \(seed): \(kind) was refused \(found) times")
            }
            #expect(figures.roundTrips >= 1000)
            #expect(figures.errors == 0)
            // No well-behaved client waited for 5 s, the longest time for which the server waits for a stopped client.
            #expect(figures.maximum < 5_000)
            return figures
        }

        /// The largest number of threads that the daemon remembers for all clients. It has a descriptor for each thread.
        private static let mostRemembered = 64

        /// Waits until the daemon holds nothing for clients, and uses at most the given number of descriptors and kB.
        func settle(_ mount: ForegroundMount, descriptors: Int, kilobytes: Int) throws -> DaemonResources {
            var found = try mount.holdings()
            try eventually(
                within: .seconds(20),
                "the daemon to have \(descriptors) descriptors and \(kilobytes) kB, not \(found)"
            ) {
                // Without claims and presenters, `truce ps` prints only its heading line.
                let isIdle = try TruceCommand.run("ps", mount.path).text.split(separator: "\n").count == 1
                found = try mount.holdings()
                return isIdle && found.descriptors <= descriptors && found.kilobytes <= kilobytes
                    && found.processes <= Self.mostRemembered
            }
            return found
        }

        /// Checks that no file was changed, and that programs that do not use the protocol can still read and write.
        private func checkFiles(_ mount: ForegroundMount) throws {
            #expect(try Program("ls").run("-A", mount.path).text == "document\n")
            #expect(try Program("cat").run(mount.path + "/document").text == "as it was\n")
            let script = Script(
                "cd \"$1\"; echo new >document; mv document other; cat other; rm other; ls -A")
            #expect(try script.run(mount.path).text == "new\n")
        }
    }
}

/// The memory and the descriptors of a daemon.
struct DaemonResources: CustomStringConvertible {
    var kilobytes: Int
    /// The largest memory that the daemon has used so far, in kB.
    var highest: Int
    var descriptors: Int
    /// The number of pidfds, which are not included in `descriptors`.
    var processes: Int
    var description: String {
        "\(kilobytes) kB (at most \(highest)), \(descriptors) descriptors, \(processes) processes"
    }
}

/// A mount in the foreground, so that the test can read the daemon's log.
final class ForegroundMount {
    let path: String
    let socket: String
    private let daemon: RunningProgram

    init(_ options: String...) throws {
        path = try Lab.freshDirectory("hostile")
        let (path, mode) = (path, try Lab.dataPath)
        daemon = try TruceCommand.start(
            "mount", "-f", "-o",
            (options + [mode == .daemon ? "data=daemon" : "data=auto"]).joined(separator: ","), path)
        try eventually(within: .seconds(20), "the mount of a daemon in the foreground") {
            try MountedDirectory.isMounted(path)
        }
        // The shared socket, to which guests may connect as well.
        socket = try TruceCommand.run("socket", "--shared", path).text.trimmingCharacters(in: .newlines)
    }

    var log: String { daemon.errorText }
    var pid: pid_t { daemon.pid }

    func holdings() throws -> DaemonResources {
        let status = ProcessStatus(of: daemon.pid)
        func size(_ name: String) throws -> Int {
            guard let size = status?[name]?.split(separator: " ").first.flatMap({ Int($0) }) else {
                throw TestFailure("the daemon has no \(name): \(log.suffix(2000))")
            }
            return size
        }
        let listed = try Program("ls").attempt("-l", "/proc/\(daemon.pid)/fd").text
        let links = listed.split(separator: "\n").filter { $0.contains(" -> ") }
        let processes = links.count { $0.contains("pidfd") }
        return DaemonResources(
            kilobytes: try size("VmRSS"), highest: try size("VmHWM"), descriptors: links.count - processes,
            processes: processes)
    }

    func end() throws {
        try TruceCommand.run("unmount", path)
        try daemon.wait(within: .seconds(10)).requireSuccess()
    }

    /// Kills the daemon and removes the mount and files, for a test that has failed.
    func abandon() {
        do {
            if try MountedDirectory.isMounted(path) {
                _ = try TruceCommand.attempt("unmount", "--lazy", path)
            }
        } catch {
            Issue.record(error)
        }
    }
}
