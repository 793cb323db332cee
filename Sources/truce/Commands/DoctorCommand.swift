// SPDX-License-Identifier: Apache-2.0
import ArgumentParser
import ControlClient
import ControlProtocol
import Glibc
import LinuxSystem

struct DoctorCommand: ParsableCommand {
    /// The exit code of `doctor` if it finds problems. Other codes are used if `doctor` itself fails.
    private static let problemsFound: Int32 = 5

    static var configuration: CommandConfiguration {
        CommandConfiguration(
            commandName: "doctor",
            abstract: "Reports problems of a mount: dead daemons, bypasses and wrong rules.",
            discussion: """
                Exit code 5 if there is a problem. A bypass is a file opened before an in-place mount was made, or another \
                mount of the same directory. Changes through a bypass wait for no program, and no presenter learns of them.
                """)
    }

    @Flag(help: "Print everything as one line of JSON.")
    var json = false

    @Argument(help: "A path in a mount; all your mounts if left out.", completion: .directory)
    var path: String?

    func run() throws {
        let mounts =
            try path.map { path in
                try Watchdog.withDeadline { [try Self.mount(holding: RawArgument.bytes(of: path))] }
            } ?? Self.allMounts()
        var (examinations, problem): ([Examination], CommandFailure?) = ([], nil)
        for mount in mounts {
            do throws(CommandFailure) {
                examinations.append(try Examination(of: mount))
            } catch {
                // If no path was given, an error with one mount does not end the check of the other mounts.
                guard path == nil else { throw error }
                LineOutput.say("truce: \(error.message)", to: STDERR_FILENO)
                problem = error
            }
        }
        try CommandOutput.print(["mounts": examinations], asJSON: json) {
            mounts.isEmpty ? ["Nothing of yours is mounted by truce."] : examinations.flatMap(\.lines)
        }
        if let problem { Glibc.exit(problem.status.rawValue) }
        if examinations.contains(where: \.hasFindings) { Glibc.exit(Self.problemsFound) }
    }

    /// Returns the mount that contains a path. In a dead mount no path can be looked up, so only the mountpoint itself
    /// is accepted.
    private static func mount(holding path: [UInt8]) throws(CommandFailure) -> MountEntry {
        do throws(CommandFailure) {
            return try MountedPath(path).mount
        } catch {
            let table = try MountFinder.table()
            guard let dead = table.top(at: path), dead.isTruce, DeadMountProbe.isDead(path, in: table) else {
                throw error
            }
            return dead
        }
    }

    private static func allMounts() throws(CommandFailure) -> [MountEntry] {
        let table = try MountFinder.table()
        var devices: Set<UInt64> = []
        return table.entries.filter { mount in
            mount.isTruce && table.top(at: mount.mountpoint) == mount && MountFinder.mayConnect(mount)
                && devices.insert(mount.device).inserted
        }
    }
}

/// The findings about one mount, in the form of `doctor --json`.
private struct Examination: Encodable {
    struct EarlierUseForm: Encodable {
        var pid: Int32
        var program: String
        var user: UInt32?
        /// The kind of use: `open`, `mapped`, `working directory` or `root directory`.
        var use: String
        var path: String
        var pathBytes: String?
        var writes: Bool
    }

    struct OtherMountForm: Encodable {
        var path: String
        var pathBytes: String?
        /// A process in the other mount's namespace. Nil if the other mount is in the caller's own namespace.
        var pid: Int32?
        var program: String?
    }

    var mountpoint: String
    var source: String
    var inPlace: Bool
    var dead: Bool
    var around: SourceWatchForm?
    /// The errors in rule files. When the daemon made the mount, it did not use the files with errors.
    var rules: [String] = []
    var opened: [EarlierUseForm] = []
    var ways: [OtherMountForm] = []
    /// The number of processes that the caller may not examine. There may be more, if `/proc` does not show them.
    var hidden = 0
    var unlisted = false
    /// Whether the daemon refused to answer the caller.
    var denied = false

    init(of mount: MountEntry) throws(CommandFailure) {
        let table = try MountFinder.table()
        mountpoint = String(decoding: mount.mountpoint, as: UTF8.self)
        source = String(decoding: mount.source, as: UTF8.self)
        inPlace = mount.source == mount.mountpoint
        let (isDead, status) = try BoundedWait.answer(of: mount) { () throws(CommandFailure) in
            if DeadMountProbe.isDead(mount.mountpoint, in: table) { return (true, StatusForm?.none) }
            do throws(CommandFailure) {
                return (false, try Self.status(of: mount))
            } catch {
                // The daemon may have ended after the previous check. The mount is then dead.
                guard DeadMountProbe.isDead(mount.mountpoint, in: table) else { throw error }
                return (true, nil)
            }
        }
        dead = isDead
        guard !dead else { return }
        if let status {
            (inPlace, around) = (status.options.inPlace, status.around)
            rules = status.rules?.problems ?? []
        }
        denied = status == nil
        if inPlace { try findBypasses(around: mount, in: table, servedBy: status?.pid) }
    }

    /// Returns the daemon's status. Returns nil if the daemon refuses to answer, because the caller is neither root nor
    /// the daemon's user.
    private static func status(of mount: MountEntry) throws(CommandFailure) -> StatusForm? {
        var client = try DaemonClient(to: mount)
        do throws(CommandFailure) {
            return try client.status()
        } catch {
            guard error.status == .denied else { throw error }
            return nil
        }
    }

    /// Finds the bypasses of a mount. `daemon` is nil if the mount's daemon refuses to answer the caller.
    private mutating func findBypasses(
        around mount: MountEntry, in table: MountTable, servedBy daemon: Int32?
    ) throws(CommandFailure) {
        let place = mountpoint
        // The search has a time limit. It reads the memory maps of processes, and that read may wait for a process that
        // waits for a mount that does not answer.
        let found = try BoundedWait.answer(of: mount) { () throws(CommandFailure) in
            do throws(Errno) {
                return try MountBypasses(mount, in: table, servedBy: daemon.map { [$0] } ?? [])
            } catch {
                throw CommandFailure(.failed, "bypasses of '\(place)' cannot be found: \(error)")
            }
        }
        opened = found.earlierUses.map { opened in
            let form = PathForm(opened.path)
            return EarlierUseForm(
                pid: opened.pid, program: String(decoding: opened.program, as: UTF8.self), user: opened.user,
                use: opened.use.rawValue, path: form.path, pathBytes: form.pathBytes, writes: opened.mayWrite)
        }
        ways = found.otherMounts.map { way in
            let form = PathForm(way.path)
            let program = way.pid.map { _ in String(decoding: way.program, as: UTF8.self) }
            return OtherMountForm(path: form.path, pathBytes: form.pathBytes, pid: way.pid, program: program)
        }
        (hidden, unlisted) = (found.hidden, found.hasUnlistedProcesses)
    }

    var hasFindings: Bool { !findings.isEmpty }
}

extension Examination {
    var lines: [String] {
        var lines =
            findings.isEmpty ? [uninspected == nil ? "nothing is odd" : "nothing odd can be seen"] : findings
        if let around, around.watch != "none" { lines.append(around.text) }
        if let uninspected { lines.append(uninspected) }
        return ["\(mountpoint)\(inPlace ? " (in place)" : " from \(source)")"] + lines.map { "  " + $0 }
    }

    /// A sentence about the checks that the caller has no right to make. Nil if all checks were made.
    private var uninspected: String? {
        if denied, !inPlace {
            return "may not ask its daemon whether changes around the mount are noticed; root can"
        }
        guard hidden > 0 || unlisted else { return nil }
        let processes = unlisted ? "processes of other users" : "\(hidden) processes of other users"
        return "could not examine \(processes) and mounts that only they see; root can"
    }

    /// The problems that were found, each as one sentence.
    private var findings: [String] {
        var findings: [String] = []
        if dead {
            findings.append(
                "its daemon has died: 'truce mount' starts a new daemon, 'truce unmount' removes the mount"
            )
        }
        findings += rules
        findings += opened.map(\.sentence)
        findings += ways.map(\.sentence)
        if let around, around.watch == "none" || around.shortage != nil {
            findings.append(
                "changes around the mount are \(around.watch == "none" ? "not" : "not all") noticed: "
                    + (around.shortage ?? "nothing can be watched"))
        }
        return findings
    }
}

extension Examination.EarlierUseForm {
    fileprivate var sentence: String {
        let who = "\(program.printable) (pid \(pid)\(user.map { ", user \($0)" } ?? ""))"
        let isFile = use == "open" || use == "mapped"
        let what = isFile ? "\(use) to \(writes ? "write" : "read")" : "as its \(use)"
        return "\(who) has \(path.printable) \(what), and bypasses the mount"
    }
}

extension Examination.OtherMountForm {
    fileprivate var sentence: String {
        let place = pid.map { " where \((program ?? "").printable) (pid \($0)) runs" } ?? ""
        return "the files can also be reached at \(path.printable)\(place), which bypasses the mount"
    }
}
