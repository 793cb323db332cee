// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import TestSupport
import Testing

/// Guarantees, "Contents are preserved before they are lost", if the daemon is killed at any system call of a preservation: the
/// old contents are in their file, or they are a version. No version is ever incomplete.
///
/// In each round a program takes a step that destroys contents, and `Tests/CallKiller` kills the daemon just before one of its
/// calls that change files. In some rounds it then kills the next daemon in its recovery. In an ordinary run, the calls are
/// chosen at random. In the run of `Scripts/test --all` the daemon is killed at each of these calls. A kill between two of
/// them leaves the same files as a kill before the second one.
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

        /// The daemon is killed at a call of a preservation. The next daemon finds the store that the kill has left. It is killed
        /// at a call of its start: of the recovery, or of the mount after it.
        @Test(
            "Contents survive a kill at each system call of the recovery after such a kill",
            arguments: [
                KillScene.unseenTruncation, .unseenReplacement, .harmlessTruncation, .secondName,
                .mergedTruncation,
            ])
        func contentsSurviveAKillInRecovery(scene: KillScene) throws {
            let source = try KillSource(try Lab.freshDirectory("kills"))
            try Self.play(scene, in: source, killingRecovery: true)
        }

        /// Plays the rounds of a scene. Each round ends with the death of the daemon.
        private static func play(
            _ scene: KillScene, in source: KillSource, killingRecovery: Bool = false
        ) throws {
            let seed = UInt64.random(in: 1...999_999_999)
            var schedule = KillSchedule(seed: seed, killingRecovery: killingRecovery)
            var (kills, number) = (0, 0)
            let began = ContinuousClock.now
            do {
                try source.mount(scene)
                while let moment = schedule.next {
                    number += 1
                    let told = try play(
                        KillRound(number: number), of: scene, in: source, killingAt: moment)
                    kills += told.kills
                    print("\(scene.rawValue), \(moment.description): \(told.description)")
                    try schedule.note(told)
                }
                try source.unmount()
            } catch {
                source.abandon()
                throw error
            }
            print("\(scene.rawValue): \(kills) kills from seed \(seed), \(ContinuousClock.now - began)")
        }

        /// Plays one round. Returns what the killers said.
        private static func play(
            _ round: KillRound, of scene: KillScene, in source: KillSource, killingAt moment: KillMoment
        ) throws -> KillOutcome {
            try scene.makeFiles(round, in: source.below)
            let daemon = try source.daemon
            let stage = KillStage(
                path: source.path, holder: try ScriptedProcess(), other: try ScriptedProcess())
            let presenter = try scene.prepare(round, stage)
            let killer = try BuiltProgram.start("CallKiller", "\(daemon.pid)", "\(moment.call)", "changing")
            try eventually(within: .seconds(10), "the killer to trace\n\(killer.errorText)") {
                killer.text.hasPrefix("tracing\n")
            }
            var succeeded = 0
            for (program, words) in scene.calls(round, stage) {
                guard try program.ask(words).hasPrefix("ok") else { break }
                succeeded += 1
            }
            try source.awaitEnd(of: scene, killer)
            killer.send(SIGTERM)
            let text = try killer.wait(within: .seconds(20), for: "the kill").requireSuccess().text
            _ = try daemon.wait(within: .seconds(10), for: "the daemon's death")
            presenter?.send(SIGKILL)
            var told = KillOutcome(step: lastLine(text))
            if let call = moment.recoveryCall {
                told.recovery = lastLine(try source.recover(scene, killingAt: call))
            }
            let what = "\(scene.rawValue), \(moment.description), \(told.description)"
            try source.check(scene, round, after: succeeded, what)
            return told
        }

        private static func lastLine(_ text: String) -> String {
            text.split(separator: "\n").last.map(String.init) ?? ""
        }
    }
}

/// The number of the call before which the daemon is killed in one round.
private struct KillMoment {
    var call: Int
    /// The number of the call of the next daemon before which this daemon is killed, too; nil if it is not killed.
    var recoveryCall: Int?

    var description: String { "call \(call)" + (recoveryCall.map { ", call \($0) of the recovery" } ?? "") }
}

/// What the killers said in one round.
private struct KillOutcome {
    var step: String
    var recovery: String?

    var hasSurvivedStep: Bool { Self.hasSurvived(step) }
    var hasSurvivedRecovery: Bool { recovery.map(Self.hasSurvived) ?? true }
    var kills: Int { (hasSurvivedStep ? 0 : 1) + (hasSurvivedRecovery ? 0 : 1) }
    var description: String { ([step] + (recovery.map { [$0] } ?? [])).joined(separator: "; recovery ") }

    private static func hasSurvived(_ text: String) -> Bool { text.hasPrefix("killed after") }
}

/// The moments at which the daemon is killed: one at random in an ordinary run, and all of them in a long one.
private struct KillSchedule {
    /// An ordinary run chooses one of so many calls. If there are fewer calls, the daemon is killed after the last call.
    private static let callsOfShortRun = 18
    private static let recoveryCallsOfShortRun = 10
    private static let mostCalls = 2000

    private let killsRecovery: Bool
    private(set) var next: KillMoment?

    init(seed: UInt64, killingRecovery: Bool) {
        killsRecovery = killingRecovery
        var random = SeededGenerator(seed)
        func number(upTo most: Int) -> Int { Lab.isLong ? 1 : Int.random(in: 1...most, using: &random) }
        next = KillMoment(
            call: number(upTo: Self.callsOfShortRun),
            recoveryCall: killsRecovery ? number(upTo: Self.recoveryCallsOfShortRun) : nil)
    }

    mutating func note(_ told: KillOutcome) throws {
        guard let moment = next, Lab.isLong else { return next = nil }
        guard max(moment.call, moment.recoveryCall ?? 0) < Self.mostCalls else {
            throw TestFailure("more calls than in \(moment.description)")
        }
        if let call = moment.recoveryCall, !told.hasSurvivedRecovery {
            next?.recoveryCall = call + 1
        } else if told.hasSurvivedStep {
            next = nil
        } else {
            next = KillMoment(call: moment.call + 1, recoveryCall: killsRecovery ? 1 : nil)
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
    /// The directory with the configuration for merges.
    private var configuration: String?

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

    func mount(_ scene: KillScene) throws {
        let daemon = try TruceCommand.start(
            "mount", "-f", path, "-o", try options(of: scene), with: try environment(of: scene))
        try eventually(within: .seconds(20), "a mount on \(path)\n\(daemon.errorText)") {
            if daemon.hasEnded { throw TestFailure("no mount: \(daemon.errorText)") }
            return daemon.text.contains("\n")
        }
        running = daemon
    }

    /// Waits until the daemon has done all work of a scene, or is dead.
    func awaitEnd(of scene: KillScene, _ killer: RunningProgram) throws {
        try eventually(within: .seconds(20), "the overwrites to be compared") {
            if killer.hasEnded { return true }
            // A daemon that still lives has answered this command after the step.
            let result = try TruceCommand.attempt("status", "--json", path)
            guard result.isSuccess, scene.isUnseen else { return true }
            let counters = try MountStatus(json: result.output).counters
            let done = scene.isMerged ? counters.merged : counters.unseen + counters.harmless
            return done == counters.suspected && done > 0
        }
    }

    /// Mounts the source of a killed daemon again, and kills the new daemon at a call of its start. Returns the killer's output.
    func recover(_ scene: KillScene, killingAt call: Int) throws -> String {
        let command = [try Lab.variable("TRUCE_BINARY"), "mount", "-f", path, "-o", try options(of: scene)]
        let killer = try BuiltProgram.start(
            "CallKiller", arguments: ["start", "\(call)", "changing"] + command,
            with: try environment(of: scene), input: .none)
        try eventually(within: .seconds(20), "a mount on \(path), or a kill\n\(killer.errorText)") {
            killer.hasEnded || killer.text.split(separator: "\n").contains { !$0.hasPrefix("tracing") }
        }
        killer.send(SIGTERM)
        return try killer.wait(within: .seconds(20), for: "the kill in recovery").requireSuccess().text
    }

    private func options(of scene: KillScene) throws -> String {
        scene.options + (try Lab.dataPath == .daemon ? ",data=daemon" : ",data=auto")
    }

    /// A mount of a scene with a merge has a configuration of its own.
    private func environment(of scene: KillScene) throws -> [String: String] {
        guard scene.isMerged else { return [:] }
        if configuration == nil {
            let home = try Lab.freshDirectory("configuration")
            try Script("mkdir \"$1/truce\"").run(home)
            try FileContents.write(
                "[[paths]]\npattern = \"document-*\"\nunseen = \"merge\"\n", to: home + "/truce/truce.toml")
            configuration = home
        }
        return configuration.map { ["XDG_CONFIG_HOME": $0] } ?? [:]
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
        let whole = scene.whole(round).union([round.written])
        var files = texts(of: round)
        // What a kill leaves of a merge is completed by the next daemon.
        if !scene.isMerged { checkFiles(files, are: whole, what) }
        try mount(scene)
        let daemon = try daemon
        try eventually(within: .seconds(10), "the daemon to complete merges") {
            try !FileManager.default.contentsOfDirectory(atPath: "\(below)/.truce/store").contains {
                $0.hasPrefix("merging-")
            }
        }
        files = texts(of: round)
        checkFiles(files, are: whole, what)
        var versions = try list(round)
        #expect(!versions.contains { $0.standing == "suspected" }, "\(what): a version is left undecided")
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

    private func texts(of round: KillRound) -> [String] {
        round.names.compactMap { FileContents.ofFile("\(below)/\($0)") }.map {
            String(decoding: $0, as: UTF8.self)
        }
    }

    private func checkFiles(_ texts: [String], are whole: Set<String>, _ what: String) {
        for text in texts { #expect(whole.contains(text), "\(what): a file has \(Self.summary(text))") }
    }

    private struct Version {
        let id: String
        /// Whether the version is listed under one of the names of the round.
        let isOfRound: Bool
        let standing: String
    }

    /// The versions that no former round had, oldest first.
    private func list(_ round: KillRound) throws -> [Version] {
        struct List: Decodable {
            struct Entry: Decodable {
                var id: String
                var path: String
                var standing: String
            }
            var entries: [Entry]
        }
        let output = try TruceCommand.run("versions", "--json", path).output
        let names = Set(round.names)
        return try JSONDecoder().decode(List.self, from: Data(output)).entries.reversed()
            .filter { !known.contains($0.id) }
            .map { entry in
                let name = entry.path.split(separator: "/").last.map(String.init) ?? ""
                return Version(id: entry.id, isOfRound: names.contains(name), standing: entry.standing)
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
