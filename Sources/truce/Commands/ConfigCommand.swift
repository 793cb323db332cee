// SPDX-License-Identifier: Apache-2.0
import ArgumentParser
import ControlClient
import ControlProtocol
import Glibc
import LinuxSystem

struct ConfigCommand: ParsableCommand {
    static var configuration: CommandConfiguration {
        CommandConfiguration(
            commandName: "config", abstract: "Shows the settings of the configuration files.",
            subcommands: [ConfigShowCommand.self])
    }
}

struct ConfigShowCommand: ParsableCommand {
    static var configuration: CommandConfiguration {
        CommandConfiguration(
            commandName: "show", abstract: "Shows the settings that hold for a file in a mount.")
    }

    @Flag(help: "Print everything as one line of JSON.")
    var json = false

    @Flag(help: "Also print the file, the line and the pattern that decide each setting.")
    var origin = false

    @Argument(help: "A path in a mount.", completion: .file())
    var path: String

    func run() throws {
        let (result, problems) = try Watchdog.withDeadline {
            let mounted = try MountedPath(RawArgument.bytes(of: path))
            var client = try DaemonClient(to: mounted.mount)
            let result = try client.settings(of: mounted.pathInMount)
            return (result, try client.ruleProblems())
        }
        for problem in problems { LineOutput.say("truce: \(problem)", to: STDERR_FILENO) }
        try CommandOutput.print(result, asJSON: json) { result.settings.map { $0.text(withOrigin: origin) } }
    }
}

extension DaemonClient {
    fileprivate mutating func settings(of path: [UInt8]) throws(CommandFailure) -> SettingsResult {
        try call(.showSettings(SettingsParameters(path: path)))
    }

    /// Returns a sentence for each configuration file with an error. A guest may not know the files, so it gets none.
    fileprivate mutating func ruleProblems() throws(CommandFailure) -> [String] {
        do throws(CommandFailure) {
            return try status().rules?.problems ?? []
        } catch {
            guard error.status == .denied else { throw error }
            return []
        }
    }
}

extension SettingForm {
    /// The setting as a line for people, for example `unseen = fail for background (/etc/truce/truce.toml:3, pattern '*.md')`.
    fileprivate func text(withOrigin: Bool) -> String {
        var text = "\(name.printable) = \(value.printable)"
        if let programs { text += " for \(programs.joined(separator: ", ").printable)" }
        guard withOrigin else { return text }
        guard let pattern else { return text + " (the standard value)" }
        let place = file.map { file in "\(file.printable):\(line ?? 0), " } ?? ""
        return text + " (\(place)pattern '\(pattern.printable)')"
    }
}
