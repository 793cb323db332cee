// SPDX-License-Identifier: Apache-2.0
import ArgumentParser
import ControlClient
import ControlProtocol
import Glibc
import LinuxSystem

struct VersionsCommand: ParsableCommand {
    static var configuration: CommandConfiguration {
        CommandConfiguration(
            commandName: "versions",
            abstract: "Lists, compares, restores and removes the preserved versions of files.",
            usage: """
                truce versions PATH [--all] [--since TIME] [--by PROGRAM|RUN] [--json]
                truce versions PATH show ID
                truce versions PATH diff [ID [ID]] [--tool COMMAND]
                truce versions PATH restore ID [TO] [--force]
                truce versions PATH resolve [ID…] [--remove-copy]
                truce versions PATH remove ID…
                truce versions PATH prune [--until TIME]
                """,
            discussion: """
                ID must be a version of PATH, or of a file below it. 'diff' compares a version with the file, or with \
                another version; without ID it takes the latest version. 'restore' writes the version into PATH, or \
                into TO; TO may be - for standard output. A file in a mount is overwritten in place: its owner, \
                rights and attributes stay, and its former contents are preserved first. 'resolve' marks conflicts \
                as resolved; with --remove-copy it also removes their conflict copies, which a tool that \
                synchronises files has left beside the document. 'remove' removes versions, and 'prune' removes all \
                versions that are in no conflict. \
                TIME is a time of day, a date, or an age such as 90m, 2h or 3d.
                """)
    }

    enum Verb: String, CaseIterable { case list, show, diff, restore, resolve, remove, prune }

    @Flag(help: "Print the list, or the number of changed versions, as one line of JSON.")
    var json = false

    @Flag(help: "List all versions; without it, at most the latest 1000 are listed.")
    var all = false

    @Option(help: "List only versions since this time.", completion: .none)
    var since: String?

    @Option(help: "List only versions that this program or run wrote or saved over.", completion: .none)
    var by: String?

    @Option(help: "Remove only versions until this time; only with prune.", completion: .none)
    var until: String?

    @Option(
        help: "The command that compares two files instead of diff -u; only with diff.", completion: .none)
    var tool: String?

    @Flag(help: "Replace TO if it exists; only with restore.")
    var force = false

    @Flag(help: "Remove the conflict copies of the resolved versions; only with resolve.")
    var removeCopy = false

    @Argument(help: "A path in the mount; versions of it and of files below it are meant.")
    var path: String

    @Argument(help: "list, show, diff, restore, resolve, remove or prune.")
    var verb: String?

    @Argument(help: "The IDs of versions, and the file TO.")
    var operands: [String] = []

    func validate() throws {
        let verb = try parsedVerb()
        let ids = verb == .restore ? Array(operands.prefix(1)) : operands
        for id in ids where !VersionIDFormat.isValid(id) {
            throw ValidationError("'\(id)' is not the ID of a version; 'truce versions PATH' lists them")
        }
        let (least, most): (Int, Int) =
            switch verb {
            case .list, .prune: (0, 0)
            case .show: (1, 1)
            case .diff: (0, 2)
            case .restore: (1, 2)
            case .resolve: (0, ProtocolLimits.listEntries)
            case .remove: (1, ProtocolLimits.listEntries)
            }
        guard operands.count >= least else {
            throw ValidationError("'\(verb.rawValue)' needs the ID of a version")
        }
        guard operands.count <= most else {
            throw ValidationError("'\(verb.rawValue)' has no use for '\(operands[most])'")
        }
        try checkOptions(of: verb)
    }

    private func parsedVerb() throws -> Verb {
        guard let verb else { return .list }
        guard let known = Verb(rawValue: verb) else {
            let names = Verb.allCases.map(\.rawValue).joined(separator: ", ")
            throw ValidationError("'\(verb)' is none of \(names)")
        }
        return known
    }

    private func checkOptions(of verb: Verb) throws {
        let given: [(String, Bool, [Verb])] = [
            ("--all", all, [.list]), ("--since", since != nil, [.list]), ("--by", by != nil, [.list]),
            ("--until", until != nil, [.prune]), ("--tool", tool != nil, [.diff]),
            ("--force", force, [.restore]), ("--remove-copy", removeCopy, [.resolve]),
            ("--json", json, [.list, .resolve, .remove, .prune]),
        ]
        for (name, isGiven, verbs) in given where isGiven && !verbs.contains(verb) {
            throw ValidationError("'\(name)' has no meaning for '\(verb.rawValue)'")
        }
        try VersionTime.check(since: since, until: until)
    }

    func run() throws {
        let mounted = try Watchdog.withDeadline { try MountedPath(RawArgument.bytes(of: path)) }
        var client = try Watchdog.withDeadline { try DaemonClient(to: mounted.mount) }
        let place = mounted.pathInMount
        switch try parsedVerb() {
        case .list: try list(place, from: &client)
        case .show:
            try client.fetch(operands[0], of: place) { bytes throws(CommandFailure) in try Self.print(bytes) }
        case .diff: try VersionComparison(of: mounted, with: tool).run(operands, &client)
        case .restore: try restore(mounted, from: &client)
        case .resolve:
            let ids = operands.isEmpty ? nil : operands
            let copies = removeCopy ? try conflictCopies(of: place, from: &client) : []
            try report(try client.resolve(ids, of: place), "resolved")
            for copy in copies { try remove(conflictCopyAt: mounted.absolute(copy)) }
        case .remove: try report(try client.remove(operands, of: place), "removed")
        case .prune:
            let time = until.flatMap { VersionTime.parse($0) }
            try report(try client.prune(place, until: time), "removed")
        }
    }

    private func list(_ path: [UInt8], from client: inout DaemonClient) throws {
        let time = since.flatMap { VersionTime.parse($0) }
        let wanted = VersionListParameters(path: path, since: time, by: by)
        let result = all ? try every(wanted, from: &client) : try client.versions(wanted)
        try CommandOutput.print(result, asJSON: json) { result.lines() }
    }

    /// Returns all versions, page by page.
    private func every(
        _ wanted: VersionListParameters, from client: inout DaemonClient
    ) throws(CommandFailure) -> VersionListResult {
        var result = try client.versions(wanted)
        while result.isTruncated, let last = result.entries.last?.id {
            var next = wanted
            next.before = last
            let page = try client.versions(next)
            result.entries += page.entries
            result.isTruncated = page.isTruncated && !page.entries.isEmpty
        }
        return result
    }

    /// Returns the paths of the conflict copies that belong to the versions to be resolved.
    private func conflictCopies(of path: [UInt8], from client: inout DaemonClient) throws -> [[UInt8]] {
        try every(VersionListParameters(path: path), from: &client).entries
            .filter { operands.isEmpty ? $0.standing == "conflict" : operands.contains($0.id) }
            .compactMap(\.conflictCopyPath)
    }

    /// Removes a conflict copy with the rights of the user. It may be gone already.
    private func remove(conflictCopyAt place: [UInt8]) throws(CommandFailure) {
        guard place.withPath({ unlink($0) }) != 0 else { return }
        let error = Errno.last
        guard error != .noEntry else { return }
        throw CommandFailure(.failed, "the conflict is resolved, but '\(place.printable)' stays: \(error)")
    }

    private func report(_ result: VersionChangeResult, _ what: String) throws {
        try CommandOutput.print(result, asJSON: json) {
            ["\(what) \(result.count) \(result.count == 1 ? "version" : "versions")"]
        }
    }

    private static func print(_ bytes: [UInt8]) throws(CommandFailure) {
        do throws(Errno) { try OwnedDescriptor.duplicating(STDOUT_FILENO).writeAll(bytes) } catch {
            throw CommandFailure(.failed, "standard output cannot be written: \(error)")
        }
    }

    private func restore(_ mounted: MountedPath, from client: inout DaemonClient) throws {
        let target = try operands.dropFirst().first.map { try RawArgument.bytes(of: $0) }
        let place = try target ?? RawArgument.bytes(of: path)
        let slash = place.lastIndex(of: UInt8(ascii: "/"))
        let directory = slash.map { Array(place[...$0]) } ?? [UInt8(ascii: ".")]
        try Watchdog.whileResponsive(to: directory) {
            try copy(operands[0], of: mounted.pathInMount, to: place, isOwn: target == nil, from: &client)
        }
    }

    /// Restores a version. The command itself writes the file, and not the daemon, because the user's rights must
    /// apply. With `isOwn`, the target is PATH itself, which needs no `--force`.
    private func copy(
        _ id: String, of path: [UInt8], to target: [UInt8], isOwn: Bool, from client: inout DaemonClient
    ) throws {
        if target == [UInt8(ascii: "-")] {
            return try client.fetch(id, of: path) { bytes throws(CommandFailure) in try Self.print(bytes) }
        }
        var status = stat()
        if isOwn, target.withPath({ stat($0, &status) }) == 0, status.st_mode & S_IFMT == S_IFDIR {
            throw CommandFailure(.failed, "'\(target.printable)' is a directory; give the file TO write to")
        }
        if force || isOwn, let document = try RestoredDocument(at: target) {
            let contents = try UnnamedFile()
            try client.fetch(id, of: path) { bytes throws(CommandFailure) in try contents.append(bytes) }
            return try document.write(contents.descriptor)
        }
        var file = try RestoredFile(at: target, replacing: force)
        try client.fetch(id, of: path) { bytes throws(CommandFailure) in try file.append(bytes) }
        try file.finish()
    }
}
