// SPDX-License-Identifier: Apache-2.0
import ArgumentParser
import ConfigurationFiles
import ControlClient
import ControlProtocol
import Coordination
import Glibc
import LinuxSystem

struct RulesCommand: ParsableCommand {
    static var configuration: CommandConfiguration {
        CommandConfiguration(
            commandName: "rules",
            abstract: "Shows what a mount knows of programs by their names, and from which files.")
    }

    @Flag(help: "Print everything as one line of JSON.")
    var json = false

    @Option(
        name: .customLong("check"),
        help: ArgumentHelp("Check a configuration file instead.", valueName: "file"))
    var file: String?

    @Argument(help: "A path in the mount.", completion: .directory)
    var directory = "."

    func run() throws {
        if let file { return try check(file) }
        let rules = try Watchdog.withDeadline {
            let mount = try MountFinder.mount(holding: RawArgument.bytes(of: directory))
            var client = try DaemonClient(to: mount)
            return try client.status().rules
        }
        guard let rules else {
            throw CommandFailure(.failed, "the daemon of this mount is too old to say it; mount again")
        }
        try CommandOutput.print(rules, asJSON: json) { rules.lines }
    }

    private func check(_ path: String) throws {
        let exists = try Watchdog.withDeadline(naming: "'\(path.printable)'") { () throws(CommandFailure) in
            do throws(RuleProblem) {
                return try RuleFile(at: path, ownedBy: [0, geteuid()]) != nil
            } catch {
                throw CommandFailure(.failed, error.text(in: path))
            }
        }
        guard exists else { throw CommandFailure(.notFound, "there is no file '\(path.printable)'") }
        LineOutput.say("\(path.printable): nothing is wrong", to: STDOUT_FILENO)
    }
}

extension RulesForm {
    /// A sentence for each rule file that contains an error.
    var problems: [String] {
        files.compactMap { $0.problem?.printable }
    }

    /// The paths of the rule files, in one line.
    var filesText: String {
        files.map { $0.path.printable + ($0.problem == nil ? "" : " (wrong, and not in force)") }
            .joined(separator: ", ")
    }

    /// The rules as text for people: a paragraph for each table.
    var lines: [String] {
        var lines = ["rules: \(filesText)"] + problems
        for table in ProgramTable.allCases {
            lines += ["", "\(table.rawValue):"]
            for file in files {
                let own = programs.filter { $0.table == table.rawValue && $0.from == file.path }
                let names = own.map { ($0.belongs ? "" : "not ") + $0.name.printable }
                if !names.isEmpty {
                    lines.append("  \(file.path.printable): \(names.joined(separator: ", "))")
                }
            }
        }
        return lines
    }
}
