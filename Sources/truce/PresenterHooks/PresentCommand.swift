// SPDX-License-Identifier: Apache-2.0
import ArgumentParser
import ControlClient
import ControlProtocol
package import Coordination
import Glibc
import LinuxSystem

struct PresentCommand: ParsableCommand {
    static var configuration: CommandConfiguration {
        CommandConfiguration(
            commandName: "present",
            abstract: "Presents a file for a program that cannot: runs a command when the file is asked for.",
            discussion: """
                Commands are run by /bin/sh, one after the other, with TRUCE_PATH, TRUCE_NEW_PATH, TRUCE_MESSAGE, \
                TRUCE_CAUSE_PID, TRUCE_CAUSE_PROGRAM and TRUCE_CAUSE_OPERATION; for something in a directory that \
                is presented, at any depth, with TRUCE_SUBITEM and TRUCE_NEW_SUBITEM. A command that fails, or is ended \
                because its time is over, answers the question with an error.

                The command of --unsaved is run once a second, beside the others. While it ends with code 0, the file \
                is saved before a program reads its size or times by path.
                """)
    }

    @Option(
        help: ArgumentHelp("Run before another program reads: saves unsaved changes.", valueName: "command"))
    var onSave: String?

    @Option(
        help: ArgumentHelp(
            "Run once a second: ends with code 0 if there is something to save, as for --on-save.",
            valueName: "command"))
    var unsaved: String?

    @Option(
        help: ArgumentHelp(
            "Run when the file, or something in it, was changed or made.", valueName: "command"))
    var onChange: String?

    @Option(help: ArgumentHelp("Run when the file has another name, TRUCE_NEW_PATH.", valueName: "command"))
    var onMove: String?

    @Option(
        help: ArgumentHelp("Run before another program's access: stops using the file.", valueName: "command")
    )
    var onRelinquish: String?

    @Option(help: ArgumentHelp("Run when that access is over.", valueName: "command"))
    var onReacquire: String?

    @Option(help: ArgumentHelp("Run before another program deletes the file.", valueName: "command"))
    var onDelete: String?

    @Option(
        help: ArgumentHelp(
            "A process of yours that saves for the commands, such as an editor's server: what it writes is the presenter's own.",
            valueName: "pid"))
    var serverProcess: Int32?

    @Flag(help: "Print each message as a line of JSON, as it came; without a command, all of them.")
    var json = false

    @Argument(help: "A path in a mount; the file may be created later.", completion: .file())
    var path: String

    var hooks: PresenterHooks {
        var hooks = PresenterHooks()
        hooks.set(onSave, for: .save)
        hooks.set(onChange, for: [.didChange, .subitemDidAppear, .subitemDidChange])
        hooks.set(onMove, for: [.didMove, .subitemDidMove])
        hooks.set(onRelinquish, for: [.relinquishToReader, .relinquishToWriter])
        hooks.set(onReacquire, for: .reacquire)
        hooks.set(onDelete, for: [.accommodateDeletion, .accommodateSubitemDeletion])
        return hooks
    }

    func validate() throws {
        guard json || !hooks.messages.isEmpty else {
            throw ValidationError("say what to do: with --json, or with a command such as --on-save COMMAND")
        }
        guard unsaved == nil || json || onSave != nil else {
            throw ValidationError("--unsaved needs a command that saves: --on-save COMMAND, or --json")
        }
        if let serverProcess, serverProcess <= 0 {
            throw ValidationError("--server-process takes the number of a process")
        }
    }

    func run() throws {
        let bytes = try RawArgument.bytes(of: path)
        let mounted = try Watchdog.withDeadline { try MountedPath(bytes) }
        let wire = try Watchdog.withDeadline { try DaemonClient(to: mounted.mount).release() }
        let client = try PresenterClient(
            of: mounted, over: wire, running: hooks, printing: json, savedBy: serverProcess,
            watching: unsaved)
        let target = json ? STDERR_FILENO : STDOUT_FILENO
        LineOutput.say("truce: presenting '\(mounted.absolute.printable)'", to: target)
        try client.run()
    }
}

/// The commands that the user has given, each for a kind of message from the daemon.
package struct PresenterHooks: Sendable {
    private var commands: [(message: PresenterMessages, command: String)] = []

    package init() {}

    package mutating func set(_ command: String?, for messages: PresenterMessages) {
        if let command { commands.append((messages, command)) }
    }

    /// The kinds of messages for which the user has given a command.
    var messages: PresenterMessages { commands.reduce(into: []) { $0.formUnion($1.message) } }

    func command(for message: PresenterMessages) -> String? {
        commands.first { $0.message.contains(message) }?.command
    }
}
