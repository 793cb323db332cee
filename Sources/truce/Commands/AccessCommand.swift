// SPDX-License-Identifier: Apache-2.0
import ArgumentParser
import ControlClient
import ControlProtocol
import Coordination
import Glibc
import LinuxSystem

struct ReadCommand: ParsableCommand {
    static var configuration: CommandConfiguration {
        CommandConfiguration(
            commandName: "read",
            abstract:
                "Runs a command while no other program writes a file. Presenters of the file save it first.",
            usage: "truce read PATH [--purpose TEXT] -- COMMAND...", discussion: AccessArguments.codes)
    }

    @OptionGroup var arguments: AccessArguments

    func run() { arguments.run(.read()) }
}

struct WriteCommand: ParsableCommand {
    static var configuration: CommandConfiguration {
        CommandConfiguration(
            commandName: "write",
            abstract:
                "Runs a command while no other program reads or writes a file. Presenters of the file save it first.",
            usage: "truce write PATH [--purpose TEXT] [--if-generation G] -- COMMAND...",
            discussion: AccessArguments.codes)
    }

    @OptionGroup var arguments: AccessArguments

    @Option(
        help: ArgumentHelp(
            "Run the command only if the file still has this generation, as 'truce generation' prints it.",
            valueName: "generation"))
    var ifGeneration: String?

    func run() { arguments.run(.write(.forMerging), ifGeneration: ifGeneration) }
}

/// The arguments of `read` and `write`.
struct AccessArguments: ParsableArguments {
    static let codes = """
        The command finds the file's path in TRUCE_PATH. Exit codes: the command's own; 123 the file has another \
        generation than --if-generation, 124 timed out waiting, \
        125 another failure of truce, 126 the command cannot be executed, 127 it was not found.
        """

    @Option(
        help: ArgumentHelp(
            "Accesses with an equal purpose never wait for each other.", valueName: "text"))
    var purpose: String?

    @Argument(help: "A path in a mount.", completion: .file())
    var path: String

    @Argument(parsing: .postTerminator, help: "The command, behind --.")
    var command: [String] = []

    func validate() throws {
        guard !command.isEmpty else { throw ValidationError("a COMMAND is missing behind '--'") }
        if let purpose, !(1...ProtocolLimits.purposeBytes).contains(purpose.utf8.count) {
            throw ValidationError("--purpose takes from 1 to \(ProtocolLimits.purposeBytes) bytes of text")
        }
    }

    func run(_ access: Access, ifGeneration generation: String? = nil) -> Never {
        let code: Int32
        do {
            let mounted = try Watchdog.withDeadline(exitCode: AccessCommandFailure.otherFailure) {
                try MountedPath(RawArgument.bytes(of: path))
            }
            let held = try CommandAccess(access, to: mounted, purpose: purpose, ifGeneration: generation)
            code = try held.run(RawArgument.afterTerminator(command))
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
}

/// The reason why `truce read`, `truce write` or `truce run` did not run the given command. The exit codes are those of env(1) and
/// timeout(1).
struct AccessCommandFailure: Error {
    static let changed: Int32 = 123
    static let timedOut: Int32 = 124
    static let otherFailure: Int32 = 125
    private static let cannotExecute: Int32 = 126
    private static let notFound: Int32 = 127

    let code: Int32
    let message: String

    /// Returns the exit code of `truce read`, `truce write` and `truce run` for a wrong command line. Returns nil for
    /// other subcommands.
    ///
    /// The code is 125, because the command that they run hardly ever uses it.
    static func code(ofWrong subcommand: String?) -> Int32? {
        ["read", "write", "run"].contains(subcommand) ? otherFailure : nil
    }

    init(_ failure: ProtocolFailure) {
        code =
            switch ProtocolFailure.Code(rawValue: failure.code) {
            case .timedOut: Self.timedOut
            case .changed: Self.changed
            default: Self.otherFailure
            }
        // The message contains the names of the programs for which the access has waited.
        message = failure.message.printable
    }

    init(running command: [UInt8], _ error: Errno) {
        code = error == .noEntry ? Self.notFound : Self.cannotExecute
        message = "'\(command.printable)' cannot be run: \(error)"
    }
}

/// An access to a file in a mount. It lasts from the daemon's grant until the given command ends.
private struct CommandAccess: ~Copyable, CommandHold {
    private let mounted: MountedPath
    private let access: UInt64
    /// The path that the file had when the access was granted.
    private let path: [UInt8]
    private var wire: ControlWire

    /// Asks the daemon for the access, and waits until it is granted.
    ///
    /// A signal during the wait ends this process. The connection then closes, and the daemon drops the access.
    init(
        _ access: Access, to mounted: MountedPath, purpose: String?, ifGeneration generation: String?
    ) throws {
        var wire = try Watchdog.withDeadline(exitCode: AccessCommandFailure.otherFailure) {
            try DaemonClient(to: mounted.mount).release()
        }
        let parameters = AccessBeginParameters(
            [IntentForm(mounted.pathInMount, access, ifGeneration: generation)],
            as: purpose.map { .purpose($0) })
        let result: AccessBeginResult
        do {
            result = try wire.ask(.beginAccess(parameters)) { try DaemonClient.checkResponds(mounted.mount) }
        } catch let failure as ProtocolFailure {
            throw AccessCommandFailure(failure)
        } catch {
            throw CommandFailure(ofCall: error)
        }
        guard let path = result.intents.first?.path.bytes else {
            throw CommandFailure(.failed, "the daemon's answer could not be understood")
        }
        self.mounted = mounted
        self.access = result.access
        self.path = path
        self.wire = wire
    }

    var connection: CInt { wire.rawValue }

    var variable: (name: String, value: [UInt8]) { ("TRUCE_PATH", mounted.absolute(path)) }

    mutating func hear() throws -> Bool {
        let isConnected = isConnected()
        if !isConnected {
            LineOutput.say(
                "truce: the daemon is gone, so '\(mounted.absolute(path).printable)' is not held any more",
                to: STDERR_FILENO)
        }
        return isConnected
    }

    private mutating func isConnected() -> Bool {
        do throws(Errno) { return try wire.receive() } catch { return false }
    }

    /// Ends the access, and waits for the daemon's reply. From then on, no program waits for this access.
    mutating func end() {
        do throws(CommandFailure) {
            let _: EmptyResult = try wire.call(.endAccess(AccessEndParameters(access: access)))
        } catch {
            // This error is printed, but does not change the exit code. When the connection closes, the daemon ends the
            // access in any case.
            LineOutput.say("truce: the access was not ended in order: \(error.message)", to: STDERR_FILENO)
        }
    }
}
