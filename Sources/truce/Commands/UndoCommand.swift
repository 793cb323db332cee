// SPDX-License-Identifier: Apache-2.0
import ArgumentParser
import ControlClient
import ControlProtocol
import Coordination
import Glibc
import LinuxSystem

struct UndoCommand: ParsableCommand {
    static var configuration: CommandConfiguration {
        CommandConfiguration(
            commandName: "undo",
            abstract: "Takes back what the programs of a run wrote.",
            usage: "truce undo --by RUN [--dry-run] [--created] [PATH]",
            discussion: """
                Each document that the run wrote gets the contents that it had before, if no other program has written it \
                since. What the run wrote is preserved as a version first. The command lists each document that stays, \
                with the reason: another program has written it, or its former contents are not preserved any more. A \
                document that the run deleted is made again, readable by its owner only. Git's own files are left alone. If several runs have the name, the last one is taken \
                back. Exit code 1: some documents stay.
                """)
    }

    @Option(help: ArgumentHelp("The name of the run, as 'truce log' shows it.", valueName: "run"))
    var by: String

    @Flag(help: "Change nothing, only list what would be done.")
    var dryRun = false

    @Flag(help: "Also remove the files that the run made, if no other program has written them since.")
    var created = false

    @Argument(help: "Only documents at or below this path in a mount.", completion: .file())
    var path: String = "."

    func run() throws {
        let mounted = try Watchdog.withDeadline { try MountedPath(RawArgument.bytes(of: path)) }
        let plan = try Watchdog.withDeadline { try self.plan(for: mounted) }
        guard !plan.isEmpty else {
            throw CommandFailure(
                .notFound,
                "the history has no document at '\(path.printable)' that run '\(by.printable)' wrote")
        }
        var staying = 0
        for step in plan {
            let result = try carryOut(step, in: mounted)
            LineOutput.say("\(step.path.printable): \(result.words)", to: STDOUT_FILENO)
            if case .stays = result { staying += 1 }
        }
        guard staying == 0 else {
            throw CommandFailure(.failed, "\(staying) of \(plan.count) documents stay as they are")
        }
    }

    private func plan(for mounted: MountedPath) throws(CommandFailure) -> [UndoStep] {
        var client = try DaemonClient(to: mounted.mount)
        let named = try client.history(of: mounted.pathInMount, by: by, atMost: .max).events.filter {
            $0.actor.run == by
        }
        // Another user can give a run the same name. So the runs of this user come first.
        let own = named.filter { $0.actor.user == getuid() }
        guard let last = own.last ?? named.last else { return [] }
        let first = named.first { $0.actor.isSameRun(as: last.actor) } ?? last
        // A move can lead a document out of PATH or into it, so the events of the whole mount are needed. The time of an event
        // is rounded in a message, so the search begins a second earlier.
        let all = try client.history(of: [], since: first.time - 1, atMost: .max).events.filter {
            $0.number >= first.number
        }
        return UndoPlan(of: last.actor, in: all).steps.filter {
            mounted.pathInMount.isEmpty || $0.path.isPath(atOrBelow: mounted.pathInMount)
        }
    }

    private enum StepResult {
        case done(String)
        case stays(String)

        var words: String {
            switch self {
            case .done(let words): words
            case .stays(let why): "stays: \(why)"
            }
        }
    }

    private func carryOut(_ step: UndoStep, in mounted: MountedPath) throws -> StepResult {
        let target = mounted.absolute(step.path)
        if case .stays(let why) = step.decision { return .stays(why) }
        if let why = try Self.displacement(of: target, from: step) { return .stays(why) }
        switch step.decision {
        case .stays(let why): return .stays(why)
        case .remove(let generation):
            guard created else { return .stays("the run made it; --created removes it") }
            if let why = Self.difference(of: target, from: generation) { return .stays(why) }
            if dryRun { return .done("would be removed") }
            return try holding(target) {
                // Another program can have written the file until the access was granted.
                if let why = Self.difference(of: target, from: generation) { return .stays(why) }
                guard target.withPath({ unlink($0) }) == 0 else {
                    return .stays("it cannot be removed: \(Errno.last)")
                }
                return .done("removed")
            }
        case .empty(let generation):
            if let why = Self.difference(of: target, from: generation) { return .stays(why) }
            if dryRun { return .done("would be empty again") }
            return try carryingOut("empty again") { try overwrite(target, if: generation) { _ in } }
        case .restore(let version, let generation):
            if let why = Self.difference(of: target, from: generation) { return .stays(why) }
            if dryRun { return .done("would be restored from version \(version)") }
            return try carryingOut("restored from version \(version)") {
                try overwrite(target, if: generation) { contents in
                    try fetch(version, from: mounted) { bytes throws(CommandFailure) in
                        try contents.append(bytes)
                    }
                }
            }
        case .remake(let version):
            var status = stat()
            guard target.withPath({ lstat($0, &status) }) != 0 else {
                return .stays("the run deleted it, and another file has its name now")
            }
            let source = version.map { "from version \($0)" } ?? "and is empty"
            if dryRun { return .done("would be made again \(source)") }
            return try carryingOut("made again \(source); only its owner can read it") {
                try remake(target, from: version, in: mounted)
            }
        }
    }

    /// The new file has mode 0600, because a version has no mode.
    private func remake(_ target: [UInt8], from version: String?, in mounted: MountedPath) throws {
        var file = try RestoredFile(at: target, replacing: false)
        if let version {
            try fetch(version, from: mounted) { bytes throws(CommandFailure) in try file.append(bytes) }
        }
        try file.finish()
    }

    /// Returns why a path does not lead to the document any more; nil if it does. A directory on the path can have become a
    /// symbolic link to another directory, whose files the run has not written.
    private static func displacement(of document: [UInt8], from step: UndoStep) throws -> String? {
        var (target, path) = (document, step.path)
        if case .remake = step.decision {
            // The document does not exist, but its directory must be the one in which the run deleted it.
            let name = path.split(separator: UInt8(ascii: "/")).last?.count ?? 0
            target.removeLast(min(name + 1, target.count))
            path.removeLast(min(name + 1, path.count))
        }
        var status = stat()
        guard target.withPath({ lstat($0, &status) }) == 0 else { return "it cannot be found: \(Errno.last)" }
        do throws(ClientFailure) {
            return try MountedPath(target).pathInMount == path
                ? nil : "its path leads to another place now, by a symbolic link"
        } catch {
            guard error.status == .notFound else { throw error }
            return "its path leads out of the mount now, by a symbolic link"
        }
    }

    /// Runs a step while no other program uses the document.
    private func holding(_ target: [UInt8], _ body: () -> StepResult) throws -> StepResult {
        let document = try MountedPath(target)
        var wire = try DaemonClient(to: document.mount).release()
        let isServed = { [mount = document.mount] in try DaemonClient.checkResponds(mount) }
        do {
            let intent = IntentForm(document.pathInMount, .write(.forDeleting))
            let access: AccessBeginResult = try wire.ask(
                .beginAccess(AccessBeginParameters([intent])), onSilence: isServed)
            let result = body()
            let _: EmptyResult = try wire.ask(.endAccess(AccessEndParameters(access: access.access)))
            return result
        } catch let failure as CommandFailure {
            return .stays(failure.message)
        } catch {
            return .stays(CommandFailure(ofCall: error).message)
        }
    }

    /// Runs a step with a document. An error is the reason why the document stays.
    private func carryingOut(_ words: String, _ body: () throws -> Void) throws -> StepResult {
        do {
            try body()
            return .done(words)
        } catch let failure as CommandFailure {
            return .stays(failure.message)
        }
    }

    /// Returns why a file is not what the run left; nil if it is.
    private static func difference(of target: [UInt8], from generation: String?) -> String? {
        var status = stat()
        guard target.withPath({ lstat($0, &status) }) == 0 else { return "it cannot be found: \(Errno.last)" }
        guard status.st_mode & S_IFMT == S_IFREG else { return "it is not a file any more" }
        guard let generation else { return nil }
        let now = UndoPlan.generation(
            size: UInt64(status.st_size), seconds: Int64(status.st_mtim.tv_sec),
            nanoseconds: UInt64(status.st_mtim.tv_nsec))
        return now == generation ? nil : "it was changed since, outside of the mount or a moment ago"
    }

    /// The command itself writes the file, and not the daemon, because the user's rights must apply.
    private func overwrite(
        _ target: [UInt8], if generation: String?, fill: (borrowing UnnamedFile) throws -> Void
    ) throws {
        guard let document = try RestoredDocument(at: target) else {
            throw CommandFailure(.notFound, "it is no file in a mount")
        }
        let contents = try UnnamedFile()
        try fill(contents)
        // No other program can write during the access, so the check counts until the document is written.
        try document.write(contents.descriptor) { Self.difference(of: $0, from: generation) }
    }

    private func fetch(
        _ version: String, from mounted: MountedPath, _ take: ([UInt8]) throws(CommandFailure) -> Void
    ) throws(CommandFailure) {
        var client = try DaemonClient(to: mounted.mount)
        try client.fetch(version, of: [], take)
    }
}

/// What `truce undo` does with one document.
struct UndoStep: Hashable, Sendable {
    enum Decision: Hashable, Sendable {
        /// The document gets the contents of a version, if its contents are still those with this name.
        case restore(version: String, from: String?)
        /// The document was empty before the run.
        case empty(from: String?)
        /// The run deleted the document, which gets its name back, with the contents of the version. Nil: it was empty.
        case remake(version: String?)
        /// The run made the file, and it still has the contents with this name.
        case remove(from: String?)
        case stays(String)
    }

    /// The path of the document now, from the root of the mount.
    let path: [UInt8]
    let decision: Decision
}

/// Decides from the history what `truce undo` does with each document of a run.
struct UndoPlan {
    private struct Document {
        /// The version with the contents before the run's first write.
        var version: String?
        /// Whether the document was empty before the run's first write.
        var wasEmpty = false
        var isCreated = false
        var isWritten = false
        var isDeleted = false
        /// The last program besides the run that has written the document after the run's first step.
        var other: HistoryActorForm?
        /// Whether the run has written the document after that program.
        var isWrittenAfterOther = false
        var generation: String?

        /// Whether the run has changed the document. A file that the run made and deleted is as it was.
        var isConcerned: Bool { (isWritten || isDeleted) && !(isCreated && isDeleted) }
    }

    private let actor: HistoryActorForm
    private var documents: [[UInt8]: Document] = [:]

    /// Makes the plan for a run.
    ///
    /// - Parameters:
    ///   - actor: a program of the run.
    ///   - events: the events of the whole mount since the first event of the run, the oldest first.
    init(of actor: HistoryActorForm, in events: [HistoryEventForm]) {
        self.actor = actor
        for event in events { take(event) }
    }

    /// The steps, sorted by paths.
    var steps: [UndoStep] {
        documents.filter { $0.value.isConcerned }
            .map { UndoStep(path: $0.key, decision: Self.decision(for: $0.value)) }
            .sorted { $0.path.lexicographicallyPrecedes($1.path) }
    }

    private static func decision(for document: Document) -> UndoStep.Decision {
        let hint = document.version.map { "; version \($0) has the contents before the run" } ?? ""
        if let other = document.other {
            let when = document.isWrittenAfterOther ? "between two writes of the run" : "since"
            return .stays("\(other.words) has changed it \(when)\(hint)")
        }
        if document.isDeleted {
            guard document.version != nil || document.wasEmpty else { return .stays("the run deleted it") }
            return .remake(version: document.version)
        }
        if document.isCreated { return .remove(from: document.generation) }
        if document.wasEmpty { return .empty(from: document.generation) }
        guard let version = document.version else {
            return .stays("no version from before the run was preserved")
        }
        return .restore(version: version, from: document.generation)
    }

    private mutating func take(_ event: HistoryEventForm) {
        guard let path = event.bytesOfPath else { return }
        let isOwn = event.actor.isSameRun(as: actor)
        if event.kind == "written", let source = event.bytesOfSource {
            replace(by: source, isOwn ? nil : event.actor)
        }
        switch event.kind {
        case "moved": if let newPath = event.bytesOfNewPath { move(path, to: newPath) }
        case "preserved": if isOwn, ["write", "empty"].contains(event.detail) { preserve(event, path) }
        case "created" where isOwn: create(path, event)
        case "written" where isOwn: write(path, event)
        case "deleted" where isOwn: documents[path, default: Document()].isDeleted = true
        case "created", "written", "deleted":
            documents[path]?.other = event.actor
            documents[path]?.isWrittenAfterOther = false
        default: break
        }
    }

    private mutating func preserve(_ event: HistoryEventForm, _ path: [UInt8]) {
        let known = documents[path, default: Document()]
        guard !known.isCreated, !known.isWritten, known.version == nil, !known.wasEmpty else { return }
        documents[path, default: Document()].version = event.version
        documents[path]?.wasEmpty = event.version == nil
    }

    /// Notes that a file was renamed over a document. `other` is the program, if it is not of the run.
    private mutating func replace(by source: [UInt8], _ other: HistoryActorForm?) {
        guard let document = documents[source] else { return }
        if document.isCreated {
            documents[source] = nil
        } else if let other {
            documents[source]?.other = other
        } else {
            documents[source]?.isDeleted = true
        }
    }

    private mutating func create(_ path: [UInt8], _ event: HistoryEventForm) {
        var document = documents[path, default: Document()]
        // A document that the run deletes and makes again existed before the run.
        let isKnown = document.version != nil || document.wasEmpty || document.isDeleted || document.isWritten
        if !isKnown { document.isCreated = true }
        (document.isDeleted, document.isWritten, document.generation) = (false, true, event.generation)
        if document.other != nil { document.isWrittenAfterOther = true }
        documents[path] = document
    }

    private mutating func write(_ path: [UInt8], _ event: HistoryEventForm) {
        var document = documents[path, default: Document()]
        (document.isDeleted, document.isWritten, document.generation) = (false, true, event.generation)
        if document.other != nil { document.isWrittenAfterOther = true }
        documents[path] = document
    }

    /// Lets documents follow a move of themselves, or of a directory above them.
    private mutating func move(_ path: [UInt8], to newPath: [UInt8]) {
        for (former, document) in documents where former.isPath(atOrBelow: path) {
            documents[former] = nil
            documents[newPath + former.dropFirst(path.count)] = document
        }
    }

    /// The name of contents, as the history has it in `generation`.
    static func generation(size: UInt64, seconds: Int64, nanoseconds: UInt64) -> String {
        let hex = { (number: UInt64) in String(number, radix: 16) }
        return "\(hex(size))-\(hex(UInt64(bitPattern: seconds))).\(hex(nanoseconds))"
    }
}

extension HistoryActorForm {
    /// Whether two programs belong to the same run. The daemon tells runs apart, but not programs that only name themselves: then
    /// their user must be the same.
    func isSameRun(as other: HistoryActorForm) -> Bool {
        run == other.run && runID == other.runID && (runID != nil || user == other.user)
    }
}
