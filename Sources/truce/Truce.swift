// SPDX-License-Identifier: Apache-2.0
package import ArgumentParser
import ControlClient
import FuseBridge
import Glibc
import LinuxSystem

/// The `truce` command. The daemon is the same program, which the command executes once more.
@main
package struct Truce: ParsableCommand {
    package static let version = "0.1.0"

    package static var configuration: CommandConfiguration {
        CommandConfiguration(
            commandName: "truce",
            abstract: "Makes the programs that use a folder take turns.",
            discussion: """
                Exit codes: 0 done, 1 failed, 2 wrong command line, 3 not found or not mounted, 4 timed out, \
                5 something is odd, 6 denied.
                """,
            version: versions,
            subcommands: [
                MountCommand.self, UnmountCommand.self, StatusCommand.self, RulesCommand.self,
                ConfigCommand.self, GenerationCommand.self,
                WhyCommand.self, PsCommand.self, DoctorCommand.self,
                VersionsCommand.self, LogCommand.self, WatchCommand.self, UndoCommand.self, ReadCommand.self,
                WriteCommand.self, RunCommand.self, PresentCommand.self, SocketCommand.self,
                ServeCommand.self,
            ])
    }

    package init() {}

    private static var versions: String {
        var system = utsname()
        uname(&system)
        let release = withUnsafeBytes(of: &system.release) {
            String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
        }
        return """
            truce \(version)
            protocol \(protocolVersion)
            libfuse \(LibraryVersion.libfuse) (\(LibraryVersion.passthrough))
            FUSE kernel ABI \(LibraryVersion.kernelInterface) (kernel \(release))
            """
    }

    /// Runs the command.
    ///
    /// After an error, ArgumentParser would print a usage text and use its own exit codes. This method prints one
    /// sentence, and uses exit code 2 for a wrong command line.
    package static func main() {
        let arguments = Array(CommandLine.arguments.dropFirst())
        let subcommands = Set(configuration.subcommands.map { $0._commandName } + ["help"])
        if let line = MountHelper.arguments(of: CommandLine.arguments, subcommands: subcommands) {
            MountHelper.run(line, as: CommandLine.arguments[0])
        }
        do {
            var command = try parseAsRoot(MountOptions.separatingJoined(arguments))
            try command.run()
        } catch let failure as CommandFailure {
            LineOutput.say("truce: \(failure.message)", to: STDERR_FILENO)
            Glibc.exit(failure.status.rawValue)
        } catch {
            end(after: error, in: arguments.first)
        }
    }

    private static func end(after error: any Error, in subcommand: String?) -> Never {
        guard exitCode(for: error).isSuccess else {
            let sentence = message(for: error).split(separator: "\n").joined(separator: " ")
            LineOutput.say("truce: \(sentence) (see 'truce help')", to: STDERR_FILENO)
            Glibc.exit(AccessCommandFailure.code(ofWrong: subcommand) ?? ExitStatus.usage.rawValue)
        }
        let lines = fullMessage(for: error).split(separator: "\n", omittingEmptySubsequences: false)
        LineOutput.say(lines.map(String.init), to: STDOUT_FILENO)
        Glibc.exit(ExitStatus.done.rawValue)
    }
}
