// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import TestSupport
import Testing

/// Checks that after the daemon was killed by SIGKILL, acknowledged data is in the files, no program hangs, and the next mount
/// works.
extension MountTests {
    @Suite struct CrashTests {
        static let deaths: Set<String> = ["ENOTCONN", "ECONNABORTED"]

        @Test("Data whose write returned before the daemon was killed is still in the file after the kill")
        func acknowledgedDataSurvivesSigkill() throws {
            let rounds = try Lab.number("TRUCE_KILLS", default: 20)
            let first = UInt64.random(in: 1...999_999_999)
            var random = SystemRandomNumberGenerator()
            let mount = try MountedDirectory(["wait=5s,hold=300ms,idle=50ms"])
            var total = CrashTotals()
            do {
                try mount.mount()
                for round in 0..<rounds {
                    let moment = Duration.milliseconds(Int.random(in: 20...500, using: &random))
                    total.add(try kill(mount, after: moment, seed: "\(first + UInt64(round))"))
                }
                try mount.unmount()
            } catch {
                mount.abandon()
                throw error
            }
            print("\(rounds) kills from seed \(first) on: \(total.text)")
            #expect(total.steps > rounds)
            #expect(total.waits < .seconds(10))
        }

        /// Plays one round: programs work, hold and wait, and the daemon is killed at a random moment. A new daemon mounts, and
        /// the files below the mount are compared with the records that the programs wrote.
        private func kill(_ mount: MountedDirectory, after moment: Duration, seed: String) throws
            -> CrashTotals
        {
            let place = try Lab.freshDirectory("ledger")
            let script = Checkout.path("Tests/Workers/ledger")
            let directory = mount.path + "/" + seed
            try Program("mkdir").run(directory, place + "/kept")
            let watcher = try Program("python3").start(script, "watch", mount.path, place)
            let workers = try Program("python3").start(script, "work", directory, place, seed)
            try eventually(within: .seconds(20), "the first steps of ledger \(seed)\n\(workers.errorText)") {
                (FileContents.ofFile(place + "/ledger-0")?.filter { $0 == UInt8(ascii: "\n") }.count ?? 0) > 4
            }
            usleep(UInt32(moment.milliseconds) * 1000)
            // @sleep: the random moment at which the daemon dies; every state until then is valid.
            let killed = Self.monotonicNanoseconds
            try mount.kill()
            try workers.wait(within: .seconds(10), for: "the end after the daemon's death").requireSuccess()

            try mount.mount()
            try FileContents.write("", to: place + "/stop")
            let looks = try watcher.wait(within: .seconds(10), for: "the end")
            // Before the directory can be mounted again, fusermount3 must remove the dead mount.
            let isHidden = looks.isSuccess || geteuid() != 0
            #expect(isHidden, "seed \(seed): the directory below showed: \(looks.text)")
            for (id, _) in try mount.kept(seed) { try mount.restore(id, to: "\(place)/kept/\(id)") }
            let outcome = try Program("python3").attempt(
                script, "check", "\(mount.below)/\(seed)", place, place + "/kept", "\(killed)", seed)
            print("seed \(seed), killed after \(moment.milliseconds) ms: \(outcome.text)", terminator: "")
            let isRight = outcome.isSuccess
            #expect(isRight, "seed \(seed)\n\(outcome.text)\(outcome.errorText)")
            if isRight { try Program("rm").run("-r", place, "\(mount.below)/\(seed)") }
            return try CrashTotals(outcome.text, looks: looks.text)
        }

        private static var monotonicNanoseconds: Int64 {
            var now = timespec()
            clock_gettime(CLOCK_MONOTONIC, &now)
            return Int64(now.tv_sec) * 1_000_000_000 + Int64(now.tv_nsec)
        }

        @Test(
            "Waiting programs get an error at once when the daemon dies, and the next mount reports the dead mount"
        )
        func waitingProgramsGetAnErrorAtOnceWhenTheDaemonDies() throws {
            let mount = try MountedDirectory(["wait=60s,hold=60s,idle=60s"])
            defer { mount.abandon() }
            let document = mount.path + "/document"
            try FileContents.write("old\n", to: document)
            try mount.mount()
            let holder = try ScriptedProcess()
            try holder.must("open", "h", document, "O_WRONLY|O_TRUNC")
            try holder.must("write", "h", "acknowledged")
            let waiters = try (0..<3).map { _ in try ScriptedProcess() }
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
            #expect(try FileContents.text(of: mount.below + "/document") == "acknowledged")
            #expect(Self.deaths.contains(try waiters[0].ask("read", document)))
            try mount.checkHandleSurvives(holder)
            try Self.replace(mount)
        }

        /// Mounts again with the steps that a user takes after a crash.
        private static func replace(_ mount: MountedDirectory) throws {
            let outcome = try TruceCommand.run("mount", mount.path, mount.path)
            let said = outcome.text.ranges(of: "removed a dead mount at '\(mount.path)'")
            #expect(said.count == 1, "\(outcome.text)")
            #expect(try Program("cat").run(mount.path + "/document").text.hasPrefix("acknowledged"))
            let second = try TruceCommand.attempt("mount", mount.path)
            #expect(second.ending == .exited(1))
            try TruceCommand.run("unmount", mount.path)
            #expect(try !MountedDirectory.isMounted(mount.path))
        }

        @Test(
            "Files have the same node numbers after the daemon's death, in whatever order they are looked up"
        )
        func nodeNumbersSurviveTheDaemonsDeath() throws {
            let script = Checkout.path("Tests/Workers/node-numbers")
            // The new daemon gets these stat calls in reverse order. If node numbers depended on the order of look-ups, they
            // would now differ.
            let backwards = Script("stat \"$1\"/a/{100..1} >/dev/null; python3 \"$2\" \"$1\"")
            let mount = try MountedDirectory()
            defer { mount.abandon() }
            try Script(
                """
                mkdir -p "$1"/{a,b}/c
                touch "$1"/{a,b}/{one,two,c/three} "$1"/a/{1..100}
                ln "$1/a/one" "$1/b/link"
                ln -s one "$1/a/symbolic"
                """
            ).run(mount.path)
            try mount.mount()
            let before = try Program("python3").run(script, mount.path).text
            let lines = before.split(separator: "\n")
            #expect(lines.count == 113)
            // Two names lead to one file, and FUSE itself assigns the node number of the root.
            #expect(Set(lines.map { $0.prefix(16) }).count == 112)
            #expect(lines[0].hasPrefix("0000000000000001."))
            try mount.kill()
            try mount.mount()
            #expect(try backwards.run(mount.path, script).text == before)
            // A rename does not change a file's number. A new file under the old name has a different number.
            try Script("mv \"$1/a/two\" \"$1/moved\"; touch \"$1/a/two\"").run(mount.path)
            let renamed = try Program("python3").run(script, mount.path).text
            let line = try #require(lines.first { $0.hasSuffix(" a/two") })
            let number = try #require(line.split(separator: " ").first)
            #expect(renamed.contains("\(number) moved\n"))
            #expect(!renamed.contains(line))
            try mount.kill()
            try mount.mount()
            #expect(try backwards.run(mount.path, script).text == renamed)
            try mount.unmount()
        }

        @Test("A dead mount at another place than its source is replaced by the next mount")
        func aDeadMountBesideItsSourceIsReplaced() throws {
            let source = try Lab.freshDirectory("source")
            let place = try Lab.freshDirectory("place")
            try TruceCommand.run("mount", source, place)
            let killed = try MountStatus(json: try TruceCommand.run("status", "--json", place).output).pid
            #expect(Glibc.kill(killed, SIGKILL) == 0)
            try eventually(within: .seconds(10), "the end of daemon \(killed)") {
                !MountedDirectory.isAlive(killed)
            }
            let outcome = try TruceCommand.run("mount", source, place)
            #expect(outcome.text.contains("removed a dead mount at '\(place)'"))
            try Script("echo again > \"$1/file\"").run(place)
            #expect(try FileContents.text(of: source + "/file") == "again\n")
            try TruceCommand.run("unmount", place)
        }
    }
}

/// The sums over all rounds in which the daemon was killed.
private struct CrashTotals {
    /// The figures that `ledger check` prints for one round: it compares the files with the ledgers of the programs.
    private struct Round: Decodable {
        var steps: Int
        var kept: Int
        /// The number of contents that had to be preserved, because a program was writing when a file was truncated.
        var owed: Int
        /// The milliseconds from the kill of the daemon to the last error of a program.
        var told: Int
        /// The number of programs that got an error because the mount had ended.
        var ended: Int
        var begun: [String?]
    }

    var (steps, kept, owed, ended) = (0, 0, 0, 0)
    var waits = Duration.zero
    private var begun: [String: Int] = [:]
    private var looks: [String: Int] = [:]

    init() {}

    init(_ text: String, looks: String) throws {
        let line = text.prefix { $0 != "\n" }
        let round = try JSONDecoder().decode(Round.self, from: Data(line.utf8))
        (steps, kept, owed, ended) = (round.steps, round.kept, round.owed, round.ended)
        waits = .milliseconds(round.told)
        for kind in round.begun { begun[kind ?? "between two steps", default: 0] += 1 }
        self.looks = try JSONDecoder().decode([String: Int].self, from: Data(looks.utf8))
    }

    mutating func add(_ other: CrashTotals) {
        (steps, kept, owed, ended) = (
            steps + other.steps, kept + other.kept, owed + other.owed, ended + other.ended
        )
        waits = max(waits, other.waits)
        begun.merge(other.begun, uniquingKeysWith: +)
        looks.merge(other.looks, uniquingKeysWith: +)
    }

    var text: String {
        """
        \(steps) acknowledged steps, \(kept) contents kept, \(owed) of them for certain; \(ended) programs were told, \
        the last after \(waits.milliseconds) ms; interrupted \(Self.list(begun)); looks \(Self.list(looks))
        """
    }

    private static func list(_ counts: [String: Int]) -> String {
        counts.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", ")
    }
}

extension MountedDirectory {
    /// Returns the preserved versions of a path in the mount and of paths below it, as `truce versions --json` lists them: each
    /// with id and cause, newest first.
    func kept(_ name: String = "") throws -> [(id: String, cause: String)] {
        struct List: Decodable {
            struct Entry: Decodable {
                var id: String
                var cause: String
            }
            var entries: [Entry]
        }
        let output = try TruceCommand.run(
            "versions", "--json", "--all", name.isEmpty ? path : path + "/" + name
        )
        .output
        return try JSONDecoder().decode(List.self, from: Data(output)).entries.map { ($0.id, $0.cause) }
    }

    /// The contents of a preserved version.
    func text(ofKept id: String) throws -> String {
        let restored = try Lab.freshDirectory("restored") + "/" + id
        try restore(id, to: restored)
        return try FileContents.text(of: restored)
    }

    /// Checks that exactly these contents are preserved. Reports the causes of all versions if they are not.
    func checkVersions(are texts: [String], sourceLocation: SourceLocation = #_sourceLocation) throws {
        let versions = try kept().map { (cause: $0.cause, text: try text(ofKept: $0.id)) }
        #expect(versions.map(\.text) == texts, "\(versions)", sourceLocation: sourceLocation)
    }

    func restore(_ id: String, to target: String) throws {
        try TruceCommand.run("versions", path, "restore", id, target)
    }

    /// With passthrough, the kernel writes on without the daemon. Without passthrough, the write reports that the mount has
    /// ended.
    func checkHandleSurvives(_ holder: ScriptedProcess) throws {
        let answer = try holder.ask("write", "h", " and more")
        switch try Lab.dataPath {
        case .passthrough:
            #expect(answer == "ok")
            #expect(try FileContents.text(of: below + "/document") == "acknowledged and more")
        case .daemon: #expect(MountTests.CrashTests.deaths.contains(answer))
        }
    }
}
