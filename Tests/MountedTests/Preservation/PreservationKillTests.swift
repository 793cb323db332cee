// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import TestSupport
import Testing

/// Guarantees, "Contents are preserved before they are lost", if the daemon is killed at any system call of a preservation: the
/// old contents are in their file, or they are a version. No version is ever incomplete.
///
/// In each round a program takes a step that destroys contents, and `Tests/CallKiller` kills the daemon just before one of its
/// calls that change files. In an ordinary run, the calls are chosen at random. In the run of `Scripts/test --all` the daemon is
/// killed at each of these calls. A kill between two of them leaves the same files as a kill before the second one.
extension MountTests {
    @Suite struct PreservationKillTests {
        @Test("Contents survive a kill at each system call of a preservation", arguments: KillScene.allCases)
        func contentsSurviveAKillAtEachCall(scene: KillScene) throws {
            let source = try KillSource(try Lab.freshDirectory("kills"))
            try Self.play(scene, in: source)
        }

        @Test(
            "Contents survive a kill at each system call of a preservation that shares blocks",
            arguments: [KillScene.truncatingOpen, .truncation, .unansweredReplacementOfLinks, .secondName])
        func contentsSurviveAKillOnBtrfs(scene: KillScene) throws {
            guard geteuid() == 0 else {
                return print("only root can make a file system: shown by the run as root")
            }
            let filesystem = try LoopFilesystem(btrfsOf: "256M")
            let source = try KillSource(try Lab.freshDirectory("kills", in: filesystem.path))
            try Self.play(scene, in: source)
            withExtendedLifetime(filesystem) {}
        }

        /// Plays the rounds of a scene. Each round but the last ends with the death of the daemon.
        private static func play(_ scene: KillScene, in source: KillSource) throws {
            let seed = UInt64.random(in: 1...999_999_999)
            var random = SeededGenerator(seed)
            var (kills, survived) = (0, false)
            let began = ContinuousClock.now
            do {
                try source.mount(scene.options)
                for number in 1... {
                    if Lab.isLong ? survived : number > roundsOfShortRun { break }
                    let call = Lab.isLong ? number : Int.random(in: 1...callsOfShortRun, using: &random)
                    let round = KillRound(number: number)
                    let told = try play(round, of: scene, in: source, killingAt: call)
                    survived = told.hasPrefix("killed after")
                    kills += survived ? 0 : 1
                    print("\(scene.rawValue), call \(call): \(told)")
                    guard call < mostCalls else {
                        throw TestFailure("the step makes more than \(call) calls")
                    }
                }
                try source.unmount()
            } catch {
                source.abandon()
                throw error
            }
            print("\(scene.rawValue): \(kills) kills from seed \(seed), \(ContinuousClock.now - began)")
        }

        private static let roundsOfShortRun = 1
        /// An ordinary run chooses one of so many calls. If the step makes fewer calls, the daemon is killed after the step.
        private static let callsOfShortRun = 18
        private static let mostCalls = 2000

        /// Plays one round. Returns what the killer said.
        private static func play(
            _ round: KillRound, of scene: KillScene, in source: KillSource, killingAt call: Int
        ) throws -> String {
            try scene.makeFiles(round, in: source.below)
            let daemon = try source.daemon
            let stage = KillStage(
                path: source.path, holder: try ScriptedProcess(), other: try ScriptedProcess())
            let presenter = try scene.prepare(round, stage)
            let killer = try BuiltProgram.start("CallKiller", "\(daemon.pid)", "\(call)", "changing")
            try eventually(within: .seconds(10), "the killer to trace\n\(killer.errorText)") {
                killer.text.hasPrefix("tracing\n")
            }
            var succeeded = 0
            for (program, words) in scene.calls(round, stage) {
                guard try program.ask(words).hasPrefix("ok") else { break }
                succeeded += 1
            }
            // A daemon that still lives has answered this command after the step. It is then killed here.
            if !killer.hasEnded { _ = try TruceCommand.attempt("status", source.path) }
            killer.send(SIGTERM)
            let told = try killer.wait(within: .seconds(20), for: "the kill").requireSuccess().text
            _ = try daemon.wait(within: .seconds(10), for: "the daemon's death")
            presenter?.send(SIGKILL)
            try source.check(scene, round, after: succeeded, "\(scene.rawValue), call \(call), \(told)")
            return told.split(separator: "\n").last.map(String.init) ?? ""
        }
    }
}

/// The source of a mount whose daemon is killed again and again.
private final class KillSource {
    let path: String
    /// A path to the source that leads around the mount, by a descriptor of this process.
    let below: String
    private let descriptor: Int32
    private var running: RunningProgram?
    /// The versions of former rounds.
    private var known: Set<String> = []

    init(_ path: String) throws {
        self.path = path
        descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw TestFailure("\(path) cannot be opened") }
        below = "/proc/\(getpid())/fd/\(descriptor)"
    }

    deinit { close(descriptor) }

    var daemon: RunningProgram {
        get throws {
            guard let running else { throw TestFailure("\(path) is not mounted") }
            return running
        }
    }

    func mount(_ options: String) throws {
        let data = try Lab.dataPath == .daemon ? "data=daemon" : "data=auto"
        let daemon = try TruceCommand.start("mount", "-f", path, "-o", "\(options),\(data)")
        try eventually(within: .seconds(20), "a mount on \(path)\n\(daemon.errorText)") {
            if daemon.hasEnded { throw TestFailure("no mount: \(daemon.errorText)") }
            return daemon.text.contains("\n")
        }
        running = daemon
    }

    func unmount() throws {
        try TruceCommand.run("unmount", path)
        _ = try daemon.wait(within: .seconds(10), for: "the end of the daemon")
    }

    func abandon() {
        do {
            _ = try TruceCommand.attempt("unmount", "--lazy", path)
        } catch {
            print("\(path) could not be unmounted: \(error)")
        }
    }

    /// Mounts the source of a killed daemon again, and checks its files and versions.
    func check(_ scene: KillScene, _ round: KillRound, after succeeded: Int, _ what: String) throws {
        let files = round.names.compactMap { FileContents.ofFile("\(below)/\($0)") }
            .map { String(decoding: $0, as: UTF8.self) }
        let whole = scene.whole(round).union([round.written])
        for text in files { #expect(whole.contains(text), "\(what): a file has \(Self.summary(text))") }
        try mount(scene.options)
        let daemon = try daemon
        var versions = try list(round)
        let contents = try versions.map { try self.text(of: $0) }
        for text in scene.endangered(round, after: succeeded) {
            let exists =
                files.contains(text) || zip(versions, contents).contains { $0.isOfRound && $1 == text }
            #expect(exists, "\(what): \(Self.summary(text)) is lost\n\(daemon.errorText)")
        }
        for text in contents { #expect(whole.contains(text), "\(what): a version has \(Self.summary(text))") }
        // No later write to a file may change a version, not even one that goes around the mount.
        for name in round.names where FileContents.ofFile("\(below)/\(name)") != nil {
            try Program("dd").run("if=/dev/zero", "of=\(path)/\(name)", "bs=100", "count=1", "conv=notrunc")
        }
        versions = try list(round)
        for (version, text) in zip(versions, contents) {
            let isSame = try self.text(of: version) == text
            #expect(isSame, "\(what): a later write has changed the version \(version.id)")
        }
        for word in ["torn", "missing", "not the store's", "could not"] {
            #expect(!daemon.errorText.contains(word), "\(what): \(daemon.errorText)")
        }
        known.formUnion(versions.map(\.id))
    }

    private struct Version {
        let id: String
        /// Whether the version is listed under one of the names of the round.
        let isOfRound: Bool
    }

    /// The versions that no former round had, oldest first.
    private func list(_ round: KillRound) throws -> [Version] {
        struct List: Decodable {
            struct Entry: Decodable {
                var id: String
                var path: String
            }
            var entries: [Entry]
        }
        let output = try TruceCommand.run("versions", "--json", path).output
        let names = Set(round.names)
        return try JSONDecoder().decode(List.self, from: Data(output)).entries.reversed()
            .filter { !known.contains($0.id) }
            .map { entry in
                let name = entry.path.split(separator: "/").last.map(String.init) ?? ""
                return Version(id: entry.id, isOfRound: names.contains(name))
            }
    }

    private func text(of version: Version) throws -> String {
        try TruceCommand.run("versions", path, "show", version.id).text
    }

    private static func summary(_ text: String) -> String { "\(text.utf8.count) bytes '\(text.prefix(24))…'" }
}

/// A generator of random numbers that gives the same numbers for the same seed (SplitMix64).
private struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    init(_ seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }
}
