// SPDX-License-Identifier: Apache-2.0
import ArgumentParser
import ControlClient
import ControlProtocol
import Coordination
import FoundationEssentials
import Glibc
import LinuxSystem

struct LogCommand: ParsableCommand {
    static var configuration: CommandConfiguration {
        CommandConfiguration(
            commandName: "log",
            abstract: "Shows what programs did with a file, or with the files below a folder.",
            discussion: """
                The list has the programs that made, wrote, moved and deleted files, and that read presented files, or files \
                with log = "reads" in a configuration file. It also has questions to presenters, and what was preserved. \
                Events stay for 30 days at most.
                """)
    }

    @Option(name: .customShort("n"), help: "Show at most this many events, the newest.", completion: .none)
    var most: Int?

    @Option(
        help: ArgumentHelp(
            "Show events since this time, such as 90m, 2d, 14:30 or 2026-11-28.", valueName: "time"))
    var since: String?

    @Option(help: ArgumentHelp("Show events of this program, run or process ID.", valueName: "name"))
    var by: String?

    @Flag(help: "Print each event as one line of JSON.")
    var json = false

    @Argument(help: "A path in a mount.", completion: .file())
    var path: String

    func validate() throws {
        if let most, most < 1 { throw ValidationError("-n takes a number from 1") }
        try VersionTime.check(since: since)
    }

    func run() throws {
        let mounted = try Watchdog.withDeadline { try MountedPath(RawArgument.bytes(of: path)) }
        var client = try Watchdog.withDeadline { try DaemonClient(to: mounted.mount) }
        let (events, isTruncated) = try client.history(
            of: mounted, since: since.flatMap { VersionTime.parse($0) }, by: by,
            atMost: most ?? Self.standardMost)
        if !json, isTruncated {
            LineOutput.say("(earlier events are left out; -n shows more)", to: STDOUT_FILENO)
        }
        if !json, events.isEmpty {
            let chosen = since == nil && by == nil ? "" : " that --since and --by choose"
            LineOutput.say(
                "truce: the history has no events of '\(path.printable)'\(chosen)", to: STDERR_FILENO)
        }
        for event in events { try HistoryOutput.print(event, asJSON: json) }
    }

    private static let standardMost = 200
}

struct WatchCommand: ParsableCommand {
    static var configuration: CommandConfiguration {
        CommandConfiguration(
            commandName: "watch",
            abstract: "Prints what programs do with a file, or with the files below a folder, as it happens.")
    }

    @Flag(help: "Print each event as one line of JSON.")
    var json = false

    @Argument(help: "A path in a mount.", completion: .file())
    var path: String = "."

    func run() throws {
        let mounted = try Watchdog.withDeadline { try MountedPath(RawArgument.bytes(of: path)) }
        var wire = try Watchdog.withDeadline { try DaemonClient(to: mounted.mount).release() }
        var number: UInt64?
        while true {
            let result: HistoryResult = try wire.callPatiently(
                .watchHistory(HistoryWatchParameters(path: mounted.pathInMount, after: number)),
                in: mounted.mount)
            number = result.last
            for event in result.events { try HistoryOutput.print(event, asJSON: json) }
        }
    }
}

/// Prints events of the history.
enum HistoryOutput {
    static func print(_ event: HistoryEventForm, asJSON: Bool) throws {
        try CommandOutput.print(event, asJSON: asJSON) { [event.line] }
    }

    /// Returns a time as people in the machine's time zone write it, for example `2026-11-28 14:02:09`.
    static func local(_ seconds: Double) -> String {
        var time = time_t(seconds)
        var fields = tm()
        localtime_r(&time, &fields)
        var text = [CChar](repeating: 0, count: 32)
        let count = strftime(&text, text.count, "%Y-%m-%d %H:%M:%S", &fields)
        return String(decoding: text.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}

extension HistoryActorForm {
    /// The program with its process and its run, for example `sed (4711), run 'agent-1'`.
    var words: String {
        let process = pid.map { " (\($0))" } ?? ""
        let name = (program.isEmpty ? "an unknown program" : program.printable) + process
        return run.map { "\(name), \(runPid == nil ? "actor" : "run") '\($0.printable)'" } ?? name
    }
}

extension HistoryEventForm {
    /// The event as a line, for example `2026-11-28 14:02:09  notes/a.md  written by sed (4711), run 'agent-1'`.
    var line: String {
        if kind == "gap" {
            return
                "\(HistoryOutput.local(time))  \(detail ?? "some") events are missing: too many came at once, or the disk was full"
        }
        let passed = detail == "uncoordinated" ? ", which passes all waits" : ""
        return "\(HistoryOutput.local(time))  \(path.printable)  \(words)\(passed)"
    }

    private var words: String {
        let by = actor.words
        switch kind {
        case "written":
            let step = source.map { ", which renamed \($0.printable)" } ?? ""
            return "written by \(by)\(step)"
        case "created": return "created by \(by)"
        case "deleted": return "deleted by \(by)"
        case "moved": return "moved to \((newPath ?? "").printable) by \(by)"
        case "read": return "read by \(by)"
        case "asked": return "\(by) was asked: \((detail ?? "").printable)"
        case "forfeited": return "\(by) did not answer in time: \((detail ?? "").printable)"
        case "saved-over":
            let version = version.map { "; the lost contents are version \($0)" } ?? ""
            return
                "saved over by \(by), which had not read what \(author?.words ?? "another program") wrote\(version)"
        case "preserved" where version == nil: return "found empty by \(by), before its first write"
        case "preserved":
            return "contents preserved as \(version ?? "a version") before a change by \(by)"
        default: return "\(kind.printable) by \(by)"
        }
    }
}

extension DaemonClient {
    /// Returns the newest events of an item, the oldest first, and whether there are more. Asks several times if the events do
    /// not fit into one reply. When all events from the event `number` on are found, no earlier ones are asked for.
    mutating func history(
        of item: MountedPath, since: Double? = nil, by name: String? = nil, atMost most: Int,
        downTo number: UInt64 = 0
    ) throws(CommandFailure) -> (events: [HistoryEventForm], isTruncated: Bool) {
        var (events, before) = ([HistoryEventForm](), UInt64?.none)
        while true {
            let result: HistoryResult = try callPatiently(
                .listHistory(
                    HistoryListParameters(
                        path: item.pathInMount, since: since, by: name,
                        limit: min(most - events.count, ProtocolLimits.listEntries), before: before)),
                in: item.mount)
            events = result.events + events
            guard result.isTruncated, let first = result.events.first, events.count < most,
                first.number > number
            else { return (events, result.isTruncated) }
            before = first.number
        }
    }
}
