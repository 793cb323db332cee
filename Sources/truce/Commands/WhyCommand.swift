// SPDX-License-Identifier: Apache-2.0
import ArgumentParser
import ControlClient
import ControlProtocol
import Glibc
import LinuxSystem

struct WhyCommand: ParsableCommand {
    static var configuration: CommandConfiguration {
        CommandConfiguration(
            commandName: "why",
            abstract: "Shows the programs that wait for a file and why, and those that have or present it.")
    }

    @Flag(help: "Print everything as one line of JSON.")
    var json = false

    @Argument(help: "A path in a mount.", completion: .file())
    var path: String

    func run() throws {
        let (mounted, snapshot) = try Watchdog.withDeadline {
            let mounted = try MountedPath(RawArgument.bytes(of: path))
            var client = try DaemonClient(to: mounted.mount)
            return (mounted, try client.why(mounted.pathInMount))
        }
        let name = mounted.pathInMount.isEmpty ? mounted.absolute : mounted.pathInMount
        try CommandOutput.print(snapshot, asJSON: json) { snapshot.explanation(of: name.printable) }
    }
}

struct PsCommand: ParsableCommand {
    static var configuration: CommandConfiguration {
        CommandConfiguration(
            commandName: "ps",
            abstract:
                "Lists the programs that use, wait for or present files: in all your mounts, or in that of a path."
        )
    }

    @Flag(help: "Print everything as one line of JSON.")
    var json = false

    @Argument(help: "A path in a mount.", completion: .directory)
    var path: String?

    func run() throws {
        let mounts =
            try path.map { path in
                try Watchdog.withDeadline { [try MountedPath(RawArgument.bytes(of: path)).mount] }
            } ?? Self.mountsToAsk()
        var (forms, table) = ([MountCensusForm](), CensusTable())
        var problem: CommandFailure?
        for mount in mounts {
            do throws(CommandFailure) {
                let (form, snapshot) = try BoundedWait.answer(of: mount) { () throws(CommandFailure) in
                    var client = try DaemonClient(to: mount)
                    return (client.server.mount, try client.snapshot())
                }
                forms.append(MountCensusForm(mount: form, snapshot: snapshot))
                table.add(snapshot, below: form.mountpoint)
            } catch {
                // If no path was given, an error with one mount does not end the command. For example, root may be
                // unable to reach another user's mount.
                guard path == nil else { throw error }
                guard error.status != .denied else { continue }
                LineOutput.say("truce: \(error.message)", to: STDERR_FILENO)
                problem = error
            }
        }
        try CommandOutput.print(["mounts": forms], asJSON: json) { table.lines }
        if let problem { Glibc.exit(problem.status.rawValue) }
    }

    /// Returns the mounts that the caller can ask. A mount may be visible at several paths, but is returned only once.
    private static func mountsToAsk() throws(CommandFailure) -> [MountEntry] {
        let table = try MountFinder.table()
        var devices: Set<UInt64> = []
        return table.entries.filter { mount in
            // If another mount covers a mount, no path leads to the covered mount. So the command cannot ask it.
            mount.isTruce && mount.root == [UInt8(ascii: "/")] && table.top(at: mount.mountpoint) == mount
                && MountFinder.mayConnect(mount) && devices.insert(mount.device).inserted
        }
    }
}

/// The JSON object that `ps --json` prints for one mount.
private struct MountCensusForm: Encodable {
    var mount: MountForm
    var claims: [ClaimForm]
    var presenters: [PresenterForm]
    var isTruncated: Bool

    init(mount: MountForm, snapshot: CoordinationSnapshotForm) {
        self.mount = mount
        claims = snapshot.claims
        presenters = snapshot.presenters
        isTruncated = snapshot.isTruncated
    }
}
