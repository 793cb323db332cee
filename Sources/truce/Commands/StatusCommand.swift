// SPDX-License-Identifier: Apache-2.0
import ArgumentParser
import ControlClient
import ControlProtocol
import Glibc
import LinuxSystem

struct StatusCommand: ParsableCommand {
    static var configuration: CommandConfiguration {
        CommandConfiguration(
            commandName: "status",
            abstract: "Shows the options, counters, waiting programs and last steps of a mount.")
    }

    @Flag(help: "Print everything as one line of JSON.")
    var json = false

    @Argument(help: "A path in the mount.", completion: .directory)
    var directory = "."

    func run() throws {
        let status = try Watchdog.withDeadline {
            let mount = try MountFinder.mount(holding: RawArgument.bytes(of: directory))
            var client = try DaemonClient(to: mount)
            return try client.status()
        }
        try CommandOutput.print(status, asJSON: json) { status.lines }
    }
}

extension StatusForm {
    /// The status as lines of text for people. Of the daemon's steps, only the last ten are shown.
    var lines: [String] {
        var lines = [
            "\(mount.mountpoint.printable)\(options.inPlace ? " (in place)" : " from \(mount.source.printable)")"
        ]
        lines.append("daemon: pid \(pid), truce \(version); data: \(options.dataPath)")
        if let around { lines.append(around.text) }
        lines.append("options: \(optionWords.joined(separator: ", "))")
        if let rules { lines.append("rules: \(rules.filesText)") }
        lines.append(contentsOf: counterLines)
        if let use { lines.append(use.text) }
        lines.append(contentsOf: ((delays ?? []) + (delaysOfAll ?? [])).map(\.text))
        lines += (runs ?? []).map(\.text)
        for claim in waiting {
            let holders = claim.holders.map(\.text).joined(separator: ", ")
            lines.append(
                "waiting: \(claim.actor.text) to \(claim.access) \(claim.path.printable) for \(holders)")
        }
        for step in journal.suffix(10) {
            let who = step.actor.map { " \($0.text)" } ?? ""
            lines.append(
                "  \(step.sequence) \(step.milliseconds) ms \(step.word)\(who) \(step.path.printable) \(step.detail.printable)"
            )
        }
        return lines
    }

    private var optionWords: [String] {
        let times = [
            ("wait", options.wait), ("hold", options.hold), ("hold-aware", options.holdAware),
            ("idle", options.idle), ("lockwait", options.lockwait), ("relinquish", options.relinquish),
            ("save", options.save), ("deletion", options.deletion), ("ask-again", options.askAgain),
            ("ask-again-stat", options.askAgainStat), ("guest-delay", options.guestDelay),
        ]
        let flags = [
            ("allow_other", options.allowOther), ("ro", options.readOnly), ("nosuid", options.nosuid),
            ("nodev", options.nodev), ("noexec", options.noexec),
        ]
        return times.map { "\($0)=\($1)ms" } + ["policy=\(options.policy)", "data=\(options.data)"]
            + flags.filter(\.1).map(\.0)
    }

    private var counterLines: [String] {
        let all = [
            ("granted", counters.granted), ("waited", counters.waited), ("asked", counters.asked),
            ("forfeited", counters.forfeited), ("proceeded", counters.proceeded),
            ("yielded", counters.yielded), ("suspended", counters.suspended),
            ("deadlocks", counters.deadlocks),
            ("retried", counters.bounced), ("parked under lock", counters.parkedUnderLock),
            ("ESTALE", counters.estale), ("interrupted", counters.interrupted),
            ("identified", counters.identified), ("preserved", counters.kept),
            ("suspected overwrites", counters.suspected), ("unseen overwrites", counters.unseen),
            ("harmless overwrites", counters.harmless), ("merged overwrites", counters.merged),
            ("READ", counters.read), ("WRITE", counters.write), ("listed", counters.listed),
        ]
        return ["counters: " + all.map { "\($0) \($1)" }.joined(separator: ", ")]
    }
}

extension RunForm {
    /// The line about a run.
    ///
    /// Example: `run 'build' (pid 4711) of root: write 'src/**', 2 documents held`
    var text: String {
        let globs = [("write", write), ("read", read)].flatMap { word, globs in
            globs.map { "\(word) '\($0.printable)'" }
        }
        var parts = globs
        if uncoordinated { parts.append("passes all waits") }
        if isWaiting { parts.append("waits for an earlier run") }
        if !globs.isEmpty, !isWaiting { parts.append("documents held: \(documents)") }
        if let suspension { parts.append("suspended (\(suspension.printable))") }
        return "run '\(name.printable)' (pid \(pid)) of \(UserName.of(user))"
            + (parts.isEmpty ? "" : ": " + parts.joined(separator: ", "))
    }
}

extension JournalStepForm {
    /// The Glossary's word for the step. The JSON output contains the protocol's word in its place.
    fileprivate var word: String {
        switch step {
        case "bounced": "retried"
        case "kept": "preserved"
        default: step
        }
    }
}

extension ResourceUsageForm {
    /// The line that says how many resources the daemon uses now.
    ///
    /// Example: `in use: claims 1, open files 1, backing files 1, descriptors 12`
    var text: String {
        "in use: claims \(claims), open files \(openFiles), backing files \(backingFiles), descriptors \(descriptors)"
    }
}

extension DelayForm {
    /// The line about a guest that has delayed another user. It says for how long the guest has done so in an hour, and
    /// how long it may.
    ///
    /// When the allowed time is used up, the other user waits only a moment each time for the guest's programs. The
    /// line then also says for how many minutes this still holds.
    ///
    /// Example: `user 1001 has made user 1000 wait 60.0 s of 60.0 s in an hour: its programs are waited for a moment only, for
    /// 41 minutes more`
    var text: String {
        let whom = delayed.map { "user \($0)" } ?? "unknown programs"
        let sum = "\(who) made \(whom) wait \(used) in an hour"
        let whose = guest == nil ? "their" : "its"
        let minutes = left / 60_000 + 1
        return spent < allowed
            ? sum : sum + ": \(whose) programs are waited for a moment only, for \(minutes) minutes more"
    }

    /// A sentence that says why another program waited only a moment for a guest's claim.
    ///
    /// Example: `it gave way after a moment, since user 1001 has made user 1000 wait 60.0 s of 60.0 s in an hour`
    var reason: String {
        let whom = delayed.map { "user \($0)" } ?? "unknown programs"
        return "it gave way after a moment, since \(who) made \(whom) wait \(used) in an hour"
    }

    private var who: String { guest.map { "user \($0) has" } ?? "all guests together have" }
    private var used: String { "\(Self.seconds(spent)) of \(Self.seconds(allowed))" }

    private static func seconds(_ milliseconds: UInt64) -> String {
        "\(milliseconds / 1000).\(milliseconds % 1000 / 100) s"
    }
}

extension SourceWatchForm {
    /// The line about changes to the files of the source that did not go through the mount.
    ///
    /// Example: `changes around the mount: noticed by fanotify, 12 so far`
    var text: String {
        let how = watch == "none" ? "not noticed" : "noticed by \(watch)"
        let lost = losses == 0 ? "" : "; the kernel lost some \(losses) times"
        let reason = shortage.map { "; not all: \($0)" } ?? ""
        return "changes around the mount: \(how), \(changes) so far\(lost)\(reason)"
    }
}
