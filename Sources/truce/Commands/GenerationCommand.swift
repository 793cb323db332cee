// SPDX-License-Identifier: Apache-2.0
import ArgumentParser
import ControlClient
import ControlProtocol
import LinuxSystem

struct GenerationCommand: ParsableCommand {
    static var configuration: CommandConfiguration {
        CommandConfiguration(
            commandName: "generation",
            abstract: "Prints the generation of a file, for 'truce write --if-generation'.",
            discussion: """
                Each write of the contents gives the file another generation. With --json, the output also says which \
                program wrote the file last, and when.
                """)
    }

    @Flag(help: "Print everything as one line of JSON.")
    var json = false

    @Argument(help: "A path in a mount.", completion: .file())
    var path: String

    func run() throws {
        let result = try Watchdog.withDeadline {
            let mounted = try MountedPath(RawArgument.bytes(of: path))
            var client = try DaemonClient(to: mounted.mount)
            return try client.generation(mounted.pathInMount)
        }
        try CommandOutput.print(result, asJSON: json) { [result.generation] }
    }
}
