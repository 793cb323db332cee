// SPDX-License-Identifier: Apache-2.0
import ArgumentParser
import ControlClient
import ControlProtocol
import Coordination
import Glibc
import LinuxSystem

struct RunCommand: ParsableCommand {
    static var configuration: CommandConfiguration {
        CommandConfiguration(
            commandName: "run",
            abstract: "Runs a command as one run: all its processes have one name, and may have leases.",
            usage: "truce run [--write GLOB] [--read GLOB] [--name NAME] [--uncoordinated] -- COMMAND...",
            discussion: """
                A glob is relative to the working directory; put it in quotation marks. '*' stands for any part of a name, \
                '**' for any directories, and 'DIRECTORY/**' for everything below. Names that are made later count, too. \
                The leases end with the command. Exit codes: the command's own; 125 another failure of truce, 126 the \
                command cannot be executed, 127 it was not found.
                """)
    }

    @Option(help: ArgumentHelp("Other programs wait to read or write these documents.", valueName: "glob"))
    var write: [String] = []

    @Option(help: ArgumentHelp("Other programs wait to write these documents.", valueName: "glob"))
    var read: [String] = []

    @Option(help: ArgumentHelp("The name that users read; without it, the command's.", valueName: "name"))
    var name: String?

    @Flag(help: "The command waits for no other program. This is logged.")
    var uncoordinated = false

    @Argument(parsing: .postTerminator, help: "The command, behind --.")
    var command: [String] = []

    func validate() throws {
        guard !command.isEmpty else { throw ValidationError("a COMMAND is missing behind '--'") }
        if let name, !ActorName.isValid(name) {
            throw ValidationError(
                "--name takes from 1 to \(ActorName.longest) bytes of text without control characters")
        }
        guard max(write.count, read.count) <= ProtocolLimits.globs else {
            throw ValidationError("--write and --read can each be given \(ProtocolLimits.globs) times")
        }
    }

    func run() {
        let code: Int32
        do {
            let words = try RawArgument.afterTerminator(command)
            let (mount, parameters) = try Watchdog.withDeadline(exitCode: AccessCommandFailure.otherFailure) {
                try plan(words)
            }
            let run = try BegunRun(parameters, in: mount)
            code = try run.run(words)
        } catch let stop as AccessCommandFailure {
            LineOutput.say("truce: \(stop.message)", to: STDERR_FILENO)
            code = stop.code
        } catch {
            let sentence = (error as? CommandFailure)?.message ?? "\(error)"
            LineOutput.say("truce: \(sentence)", to: STDERR_FILENO)
            code = AccessCommandFailure.otherFailure
        }
        Glibc.exit(code)
    }

    /// Finds the mount of the globs. Without globs, it is the mount of the working directory.
    private func plan(_ words: [[UInt8]]) throws(CommandFailure) -> (MountEntry, RunBeginParameters) {
        let writeGlobs = try write.map { glob throws(CommandFailure) in try MountedGlob(glob) }
        let readGlobs = try read.map { glob throws(CommandFailure) in try MountedGlob(glob) }
        let all = writeGlobs + readGlobs
        let mount: MountEntry
        if let first = all.first {
            mount = first.mount
        } else {
            mount = try MountedPath([UInt8(ascii: ".")]).mount
        }
        if let other = all.first(where: { $0.mount != mount }) {
            throw CommandFailure(
                .usage,
                "'\(other.typed.printable)' is in the mount \(other.mount.mountpoint.printable), and not in "
                    + "\(mount.mountpoint.printable): the globs of a run are in one mount")
        }
        let parameters = RunBeginParameters(
            name: name ?? Self.defaultName(of: words[0]), write: writeGlobs.map(\.pattern),
            read: readGlobs.map(\.pattern), isUncoordinated: uncoordinated)
        return (mount, parameters)
    }

    /// The last part of the command's path, shortened to the length of a name.
    private static func defaultName(of word: [UInt8]) -> String {
        let last = word.split(separator: UInt8(ascii: "/")).last ?? []
        var name = String(decoding: last, as: UTF8.self).printable
        while name.utf8.count > ActorName.longest { name.removeLast() }
        return ActorName.isValid(name) ? name : "command"
    }
}

/// A glob of the command line, as a pattern relative to the root of its mount.
struct MountedGlob {
    let typed: String
    let mount: MountEntry
    let pattern: String

    init(_ typed: String) throws(CommandFailure) {
        let text = try RawArgument.text(of: typed)
        let bytes = Array(text.utf8)
        guard !bytes.isEmpty else { throw CommandFailure(.usage, "a glob is empty") }
        let (base, rest) = Self.parts(of: bytes)
        guard !rest.isEmpty else {
            throw CommandFailure(.usage, "the glob '\(typed.printable)' ends with a slash: add '**'")
        }
        let directory = try MountedPath(base)
        self.typed = typed
        mount = directory.mount
        let prefix =
            directory.pathInMount.isEmpty ? [] : Self.escaped(directory.pathInMount) + [UInt8(ascii: "/")]
        guard let pattern = String(validating: prefix + rest, as: UTF8.self) else {
            throw CommandFailure(
                .usage, "the directory of the glob '\(typed.printable)' has a name that is not UTF-8")
        }
        self.pattern = pattern
        do throws(LeasePattern.Problem) { _ = try LeasePattern(pattern) } catch {
            throw CommandFailure(.usage, "the glob '\(typed.printable)' \(error.message)")
        }
        try checkIsNoDirectory(base, rest)
    }

    /// A glob without wildcards that names a directory would match no document.
    private func checkIsNoDirectory(_ base: [UInt8], _ rest: [UInt8]) throws(CommandFailure) {
        guard !rest.contains(where: Self.special.contains) else { return }
        var status = stat()
        let found = (base + [UInt8(ascii: "/")] + rest).withPath { stat($0, &status) }
        guard found == 0, status.st_mode & S_IFMT == S_IFDIR else { return }
        throw CommandFailure(
            .usage, "'\(typed.printable)' is a directory: write '\(typed.printable)/**' for everything below")
    }

    private static let special = Array("*?[\\".utf8)

    /// Divides a glob into the directories before its first wildcard, and the rest.
    private static func parts(of glob: [UInt8]) -> (base: [UInt8], rest: [UInt8]) {
        let first = glob.firstIndex(where: special.contains) ?? glob.endIndex
        guard let slash = glob[..<first].lastIndex(of: UInt8(ascii: "/")) else {
            return ([UInt8(ascii: ".")], glob)
        }
        return (Array(glob[...slash]), Array(glob[(slash + 1)...]))
    }

    private static func escaped(_ path: [UInt8]) -> [UInt8] {
        path.flatMap { special.contains($0) ? [UInt8(ascii: "\\"), $0] : [$0] }
    }
}

/// A run that has begun. It lasts until the command ends, or until this process ends.
private struct BegunRun: ~Copyable, CommandHold {
    private let run: RunBeginResult
    private let name: String
    private var wire: ControlWire

    /// Asks the daemon for the run, and waits until its leases are free.
    ///
    /// A signal during the wait ends this process. The connection then closes, and the daemon drops the run.
    init(_ parameters: RunBeginParameters, in mount: MountEntry) throws {
        var wire = try Watchdog.withDeadline(exitCode: AccessCommandFailure.otherFailure) {
            try DaemonClient(to: mount).release()
        }
        do {
            run = try wire.ask(.beginRun(parameters)) { try DaemonClient.checkResponds(mount) }
        } catch let failure as ProtocolFailure {
            throw AccessCommandFailure(failure)
        } catch {
            throw CommandFailure(ofCall: error)
        }
        name = parameters.name
        self.wire = wire
    }

    var connection: CInt { wire.rawValue }

    /// The token of the run. A run inside of another run adds its token in front.
    var variable: (name: String, value: [UInt8]) {
        let outer = getenv(RunID.variable).map { ":" + String(cString: $0) } ?? ""
        return (RunID.variable, Array((run.token + outer).utf8))
    }

    mutating func hear() throws -> Bool {
        guard isConnected() else {
            LineOutput.say(
                "truce: the daemon is gone, so run '\(name.printable)' has ended, but its command goes on",
                to: STDERR_FILENO)
            return false
        }
        while let message = try wire.next() {
            guard case .runSuspended(let form) = try IncomingMessage(decoding: message) else { continue }
            LineOutput.say(
                "truce: the leases of run '\(name.printable)' are suspended: \(form.words.printable). "
                    + "Other programs now go ahead; what they write is preserved before this run overwrites it",
                to: STDERR_FILENO)
        }
        return true
    }

    private mutating func isConnected() -> Bool {
        do throws(Errno) { return try wire.receive() } catch { return false }
    }

    /// Ends the run, and waits for the daemon's reply. From then on, no program waits for the leases.
    mutating func end() {
        do throws(CommandFailure) {
            let _: EmptyResult = try wire.call(.endRun(RunEndParameters(run: run.run)))
        } catch {
            // This error is printed, but does not change the exit code. When the connection closes, the daemon ends the
            // run in any case.
            LineOutput.say("truce: the run was not ended in order: \(error.message)", to: STDERR_FILENO)
        }
    }
}
