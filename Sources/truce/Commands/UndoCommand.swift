// SPDX-License-Identifier: Apache-2.0
import ArgumentParser
import ControlClient
import ControlProtocol
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
                document that the run deleted is made again, readable by its owner only. What the run moved is listed, but \
                not moved back. Git's own files are left alone. If several runs have the name, your last one is taken \
                back. Exit code 1: some documents stay.
                """)
    }

    @Option(help: ArgumentHelp("The name of the run, as 'truce log' shows it.", valueName: "run"))
    var by: String

    @Flag(help: "Change nothing, only list what would be done.")
    var dryRun = false

    @Flag(
        help: """
            Also remove the files and empty directories that the run made, if no other program has written them since.
            """)
    var created = false

    @Argument(help: "Only documents at or below this path in a mount.", completion: .file())
    var path: String = "."

    func run() throws {
        let mounted = try Watchdog.withDeadline { try MountedPath(RawArgument.bytes(of: path)) }
        let plan = try self.plan(for: mounted)
        guard !plan.isEmpty else {
            throw CommandFailure(
                .notFound,
                "the history has no document at '\(path.printable)' that run '\(by.printable)' wrote")
        }
        let staying = try Watchdog.whileResponsive(to: mounted.mount.mountpoint) {
            var action = UndoAction(in: mounted.mount, isDryRun: dryRun, removesCreated: created)
            var staying = 0
            for step in plan {
                let result = try action.carryOut(step)
                LineOutput.say("\(step.path.printable): \(result.words)", to: STDOUT_FILENO)
                if case .stays = result { staying += 1 }
            }
            return staying
        }
        guard staying == 0 else {
            throw CommandFailure(.failed, "\(staying) of \(plan.count) documents stay as they are")
        }
    }

    private func plan(for mounted: MountedPath) throws -> [UndoStep] {
        var client = try Watchdog.withDeadline { try DaemonClient(to: mounted.mount) }
        let named = try client.history(of: mounted, by: by, atMost: .max).events.filter {
            $0.actor.run == by
        }
        // Another user can give a run the same name. So the runs of this user come first.
        let own = named.filter { $0.actor.user == getuid() }
        guard let last = own.last ?? named.last else { return [] }
        let first = named.first { $0.actor.isSameRun(as: last.actor) } ?? last
        // A move can lead a document out of PATH or into it, so the events of the whole mount are needed. The clock can have
        // been set back since, so the number of the event decides, and not its time.
        let root = MountedPath([], in: mounted.mount)
        let all = try client.history(of: root, atMost: .max, downTo: first.number).events.filter {
            $0.number >= first.number
        }
        if all.contains(where: { $0.kind == "gap" }) {
            LineOutput.say(
                "truce: the history misses events since the run began, so it may not list all documents",
                to: STDERR_FILENO)
        }
        return UndoPlan(of: last.actor, in: all).steps.filter {
            mounted.pathInMount.isEmpty || $0.path.isPath(atOrBelow: mounted.pathInMount)
        }
    }
}
