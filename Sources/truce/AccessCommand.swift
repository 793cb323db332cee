// SPDX-License-Identifier: Apache-2.0
import ArgumentParser
import ControlClient
import ControlProtocol
import Coordination
import Glibc
import LinuxSystem

struct Read: ParsableCommand {
    static var configuration: CommandConfiguration {
        CommandConfiguration(
            abstract: "Runs a command while nobody writes a file; programs that show it save it first.",
            usage: "truce read PATH [--purpose TEXT] -- COMMAND...", discussion: AccessArguments.codes)
    }

    @OptionGroup var arguments: AccessArguments

    func run() { arguments.run(.read()) }
}

struct Write: ParsableCommand {
    static var configuration: CommandConfiguration {
        CommandConfiguration(
            abstract:
                "Runs a command while nobody else reads or writes a file; programs that show it save it first.",
            usage: "truce write PATH [--purpose TEXT] -- COMMAND...", discussion: AccessArguments.codes)
    }

    @OptionGroup var arguments: AccessArguments

    func run() { arguments.run(.write(.forMerging)) }
}

/// What `read` and `write` are called with.
struct AccessArguments: ParsableArguments {
    static let codes = """
        The command finds the file's path in TRUCE_PATH. Exit codes: the command's own; 124 timed out waiting, \
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

    func run(_ access: Access) -> Never {
        let code: Int32
        do {
            let mounted = try Watchdog.guarding(endingWith: AccessStop.otherFailure) {
                try MountedPath(RawArgument.bytes(of: path))
            }
            let held = try HeldAccess(access, to: mounted, purpose: purpose)
            code = try held.run(RawArgument.behindTerminator(command))
        } catch let stop as AccessStop {
            LineOutput.say("truce: \(stop.message)", to: STDERR_FILENO)
            code = stop.code
        } catch {
            let sentence = (error as? CommandFailure)?.message ?? "\(error)"
            LineOutput.say("truce: \(sentence)", to: STDERR_FILENO)
            code = AccessStop.otherFailure
        }
        Glibc.exit(code)
    }
}

/// Why a command was not run, in the codes that env(1) and timeout(1) use.
struct AccessStop: Error {
    static let timedOut: Int32 = 124
    static let otherFailure: Int32 = 125
    private static let cannotExecute: Int32 = 126
    private static let notFound: Int32 = 127

    let code: Int32
    let message: String

    /// A code of the command that is run must not look like a wrong command line of ours; nil for other subcommands.
    static func code(ofWrong subcommand: String?) -> Int32? {
        subcommand == "read" || subcommand == "write" ? otherFailure : nil
    }

    init(_ failure: Failure) {
        let isTimeout = failure.code == Failure.timedOut("", waitingFor: []).code
        code = isTimeout ? Self.timedOut : Self.otherFailure
        // It names whoever was in the way.
        message = failure.message.shown
    }

    init(running command: [UInt8], _ error: Errno) {
        code = error == .noEntry ? Self.notFound : Self.cannotExecute
        message = "'\(command.shown)' cannot be run: \(error)"
    }
}

/// An access that lasts until this ends.
private struct HeldAccess: ~Copyable {
    /// What would end us while a command runs that cannot be left alone.
    private static let signals = [SIGINT, SIGQUIT, SIGTERM, SIGHUP]

    private let mounted: MountedPath
    private let access: UInt64
    /// As it is called now.
    private let path: [UInt8]
    private var wire: ControlWire

    /// Waits for its turn; a signal ends that, and with the connection the wait.
    init(_ access: Access, to mounted: MountedPath, purpose: String?) throws {
        var wire = try Watchdog.guarding(endingWith: AccessStop.otherFailure) {
            try DaemonClient(to: mounted.mount).release()
        }
        let parameters = AccessBeginParameters(
            [IntentForm(mounted.inside, access)], as: purpose.map { .purpose($0) })
        let result: AccessBeginResult
        do {
            result = try wire.ask(.beginAccess(parameters)) { try DaemonClient.checkServed(mounted.mount) }
        } catch let failure as Failure {
            throw AccessStop(failure)
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

    /// The command's exit code, 128 and the number if a signal ended it.
    consuming func run(_ command: [[UInt8]]) throws -> Int32 {
        let signals = try TakenSignals(Self.signals)
        let child: Int32
        do throws(Errno) {
            child = try start(command, signals)
        } catch {
            throw AccessStop(running: command[0], error)
        }
        let isHeld = try attend(child, signals)
        let code = try OtherProcess.exitCode(of: child)
        if isHeld { end() }
        return code
    }

    private func start(_ command: [[UInt8]], _ signals: borrowing TakenSignals) throws(Errno) -> Int32 {
        let environment = OwnProcess.environment(setting: [("TRUCE_PATH", mounted.absolute(path))])
        var spawning = Spawning(commandLine: command, environment: environment)
        spawning.keepInherited()
        spawning.returnSignals(signals)
        return try spawning.start()
    }

    /// Until the command ends; false if the access ended before.
    private mutating func attend(_ child: Int32, _ signals: borrowing TakenSignals) throws -> Bool {
        let watch = try OtherProcess.watch(child)
        var isHeld = true
        while true {
            let ready = try Readiness.wait(
                for: [watch.rawValue, signals.rawValue] + (isHeld ? [wire.rawValue] : []), until: nil)
            while let signal = signals.next() {
                // From a terminal the command gets the other two by itself.
                if signal == SIGTERM || signal == SIGHUP { kill(child, signal) }
            }
            if ready.contains(watch.rawValue) { return isHeld }
            if ready.contains(wire.rawValue), !isConnected() {
                isHeld = false
                LineOutput.say(
                    "truce: the daemon is gone, so '\(mounted.absolute(path).shown)' is not held any more",
                    to: STDERR_FILENO)
            }
        }
    }

    private mutating func isConnected() -> Bool {
        do throws(Errno) { return try wire.receive() } catch { return false }
    }

    /// Returns when it is over, so that whoever comes next finds the file free.
    private mutating func end() {
        do throws(CommandFailure) {
            let _: EmptyResult = try wire.call(.endAccess(AccessEndParameters(access: access)))
        } catch {
            // The end of the connection ends it as well; the command's result is what counts.
            LineOutput.say("truce: the access was not ended in order: \(error.message)", to: STDERR_FILENO)
        }
    }
}
