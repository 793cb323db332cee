// SPDX-License-Identifier: Apache-2.0
import ArgumentParser
import ControlClient
import Glibc
import LinuxSystem

struct UnmountCommand: ParsableCommand {
    static var configuration: CommandConfiguration {
        CommandConfiguration(
            commandName: "unmount", abstract: "Unmounts a folder, and names the programs that keep it busy.")
    }

    @Flag(help: "Unmount now; open files are served until they are closed.")
    var lazy = false

    @Argument(help: "Where it is mounted.", completion: .directory)
    var directory: String

    func run() throws {
        let mount = try Watchdog.withDeadline(naming: "'\(directory.printable)'") { try findMount() }
        try MountFinder.checkOwner(of: mount)
        let (pid, isSilent) = Self.daemon(of: mount)
        let daemon = Daemon.watched(pid)
        try detach(mount, isSilent: isSilent)
        try daemon?.awaitEnd(of: mount, lazily: lazy)
    }

    private func findMount() throws(CommandFailure) -> MountEntry {
        var path = try RawArgument.bytes(of: directory)
        // The slash at the end of the path is removed. With the slash, the kernel would ask the mount whether the path
        // is a directory, and might wait for ever.
        while path.count > 1, path.last == UInt8(ascii: "/") { path.removeLast() }
        let resolved: [UInt8]
        do throws(Errno) {
            resolved = try ResolvedPath.bytes(of: path)
        } catch .noEntry {
            throw CommandFailure(.notFound, "'\(directory)' does not exist")
        } catch {
            throw CommandFailure(.failed, "'\(directory)' cannot be examined: \(error)")
        }
        let table = try MountFinder.table()
        if let mount = table.top(at: resolved), mount.isTruce { return mount }
        guard let around = table.containing(resolved), around.isTruce else {
            throw CommandFailure(.notFound, "'\(resolved.printable)' is not mounted by truce")
        }
        throw CommandFailure(
            .notFound,
            "'\(resolved.printable)' is not a mountpoint; the mount around it is '\(around.mountpoint.printable)'"
        )
    }

    /// Returns the daemon's process ID, or nil if the daemon gives no answer. `isSilent` is true if the answer did not
    /// come in time.
    private static func daemon(of mount: MountEntry) -> (pid: Int32?, isSilent: Bool) {
        do throws(CommandFailure) {
            return (try DaemonClient.pid(of: mount), false)
        } catch {
            return (nil, error.status == .timedOut)
        }
    }

    /// If a mount is busy although no process seems to use it, the command tries to unmount it for this long.
    ///
    /// A program that has just ended keeps the mount busy for a moment. So does each look-up of a path in the mount.
    private static let timeoutNanoseconds: UInt64 = 3_000_000_000
    private static let pauseMicroseconds: UInt32 = 20_000

    private func detach(_ mount: MountEntry, isSilent: Bool) throws {
        let end = MonotonicClock.nanoseconds + Self.timeoutNanoseconds
        while true {
            let obstacle = try Watchdog.withDeadline(naming: "'\(mount.mountpoint.printable)'") {
                () -> MountDetachment.Obstacle? in
                do throws(MountDetachment.Obstacle) {
                    try MountDetachment.detach(mount, lazily: lazy)
                    return nil
                } catch {
                    return error
                }
            }
            guard let obstacle else { return }
            let report = BusyReport(of: mount)
            guard case .busy = obstacle, !isSilent, !report.mayHaveUsers, MonotonicClock.nanoseconds < end
            else {
                throw failure(obstacle, mount, report, isSilent: isSilent)
            }
            usleep(Self.pauseMicroseconds)
        }
    }

    private func failure(
        _ obstacle: MountDetachment.Obstacle, _ mount: MountEntry, _ report: BusyReport, isSilent: Bool
    ) -> CommandFailure {
        let place = mount.mountpoint.printable
        return switch obstacle {
        // The mount may be busy only because of the command's own request, which the daemon does not answer.
        case .busy where isSilent:
            CommandFailure(
                .timedOut,
                "'\(place)' is busy, and its daemon does not answer; 'truce unmount --lazy' takes it away"
            )
        case .busy: CommandFailure(.failed, "'\(place)' is busy: \(report.text)")
        case .moved:
            CommandFailure(
                .failed, "the mount at '\(place)' was taken away or renamed meanwhile; see 'truce ps'")
        case .notAllowed: CommandFailure(.denied, "'\(place)' was mounted by another user")
        case .other(let why): CommandFailure(.failed, "'\(place)' could not be unmounted: \(why)")
        }
    }
}

/// The daemon of an unmounted mount. The command waits until this daemon ends.
private struct Daemon: ~Copyable {
    /// How long the command waits for the daemon, which must write its last data before it ends.
    private static let timeoutMilliseconds: CInt = 10_000
    private static let lazyTimeoutMilliseconds: CInt = 2_000

    private let pid: Int32
    private let watch: OwnedDescriptor

    /// Returns nil if no daemon runs. The command then does not wait.
    static func watched(_ pid: Int32?) -> Daemon? {
        guard let pid else { return nil }
        do throws(Errno) {
            return Daemon(pid: pid, watch: try OtherProcess.watch(pid))
        } catch {
            return nil
        }
    }

    /// Waits until the daemon ends. The daemon holds the lock of the source until then, and a new mount of the source
    /// would fail.
    func awaitEnd(of mount: MountEntry, lazily: Bool) throws(CommandFailure) {
        // If the mount table still contains the device, the daemon does not end: the same file system is also mounted
        // elsewhere, for example by a bind mount.
        let table = try MountFinder.table()
        guard !table.entries.contains(where: { $0.device == mount.device }) else { return }
        let timeout = lazily ? Self.lazyTimeoutMilliseconds : Self.timeoutMilliseconds
        guard !OtherProcess.hasExited(watch, within: timeout) else { return }
        let holders = Self.holders(of: mount)
        if lazily {
            LineOutput.say(
                "truce: pid \(pid) goes on serving files that are still open\(holders)", to: STDOUT_FILENO)
        } else {
            throw CommandFailure(
                .timedOut,
                "'\(mount.mountpoint.printable)' is unmounted, but its daemon (pid \(pid)) has not ended\(holders)"
            )
        }
    }

    private static let mostNamed = 4

    /// Returns a text about the processes that still use the unmounted file system. The text is empty if the caller
    /// sees no such process.
    private static func holders(of mount: MountEntry) -> String {
        let found = BoundedWait.result { () -> MountHolders? in
            do throws(Errno) { return try MountHolders(of: mount.device) } catch { return nil }
        }
        guard let pins = found.flatMap({ $0 }) else { return "" }
        let said = [
            ("it is in use by", pins.inside.holders),
            ("it is mounted in the mount namespace of", pins.namespaces),
        ].filter { !$0.1.isEmpty }.map { words, holders in
            let named = holders.prefix(mostNamed).map { "pid \($0.pid) (\($0.program.printable))" }
            let more = holders.count > mostNamed ? [" and \(holders.count - mostNamed) more"] : []
            return words + " " + (named.joined(separator: ", ") + more.joined())
        }
        return said.isEmpty ? "" : ": " + said.joined(separator: "; ")
    }
}

/// The reason why a mount is busy, as a sentence about the programs that use it.
private struct BusyReport {
    private static let mostNamed = 8

    let text: String
    /// Whether a program uses the mount. Also true if the search for such programs failed.
    let mayHaveUsers: Bool

    init(of mount: MountEntry) {
        // The search has a time limit. It reads the memory maps of processes, and that read may wait for a process that
        // waits for a mount that does not answer.
        let found = BoundedWait.result { () -> Result<ProcessScan, Errno> in
            do throws(Errno) { return .success(try ProcessScan(usersOf: mount)) } catch {
                return .failure(error)
            }
        }
        let scan: ProcessScan
        switch found {
        case .success(let done): scan = done
        case .failure(let error):
            (text, mayHaveUsers) = ("which programs use it cannot be found out (\(error))", true)
            return
        case nil:
            (text, mayHaveUsers) = ("which programs use it was not found out in time", true)
            return
        }
        mayHaveUsers = !scan.busy.isEmpty
        text = Self.text(of: scan)
    }

    private static func text(of scan: ProcessScan) -> String {
        var parts = scan.busy.prefix(mostNamed).map { busy in
            "pid \(busy.pid) (\(busy.program.printable)) \(busy.use.rawValue) \(busy.path.printable)"
        }
        if scan.busy.count > mostNamed { parts.append("\(scan.busy.count - mostNamed) more") }
        switch (parts.isEmpty, scan.hidden > 0) {
        case (true, false): parts.append("nothing uses it any more; try again")
        case (true, true):
            parts.append("no program that you may examine uses it; those of other users were not examined")
        case (false, true): parts.append("processes of other users were not examined")
        case (false, false): break
        }
        return parts.joined(separator: "; ")
    }
}
