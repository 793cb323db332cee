// SPDX-License-Identifier: Apache-2.0
import ArgumentParser
import ControlClient
import Glibc
import LinuxSystem

struct Unmount: ParsableCommand {
    static var configuration: CommandConfiguration {
        CommandConfiguration(abstract: "Unmounts a folder, and names who keeps it busy.")
    }

    @Flag(help: "Take the mount away now; files that are still open are served until they are closed.")
    var lazy = false

    @Argument(help: "Where it is mounted.", completion: .directory)
    var directory: String

    func run() throws {
        let mount = try Watchdog.guarding(naming: "'\(directory.shown)'") { try findMount() }
        try MountFinder.checkOwner(of: mount)
        let (pid, isSilent) = Self.daemon(of: mount)
        let daemon = Daemon.watched(pid)
        do throws(Detaching.Obstacle) {
            try Detaching.detach(mount.mountpoint, lazily: lazy)
        } catch {
            throw failure(error, mount, isSilent: isSilent)
        }
        try daemon?.awaitEnd(of: mount, lazily: lazy)
    }

    private func findMount() throws(CommandFailure) -> MountEntry {
        var path = try RawArgument.bytes(of: directory)
        // Behind the name of a mount it would have that asked whether it is a directory, and maybe for ever.
        while path.count > 1, path.last == UInt8(ascii: "/") { path.removeLast() }
        let resolved: [UInt8]
        do throws(Errno) {
            resolved = try ResolvedPath.bytes(of: path)
        } catch .noEntry {
            throw CommandFailure(.notFound, "'\(directory)' does not exist")
        } catch {
            throw CommandFailure(.failed, "'\(directory)' cannot be looked at: \(error)")
        }
        let table = try MountFinder.table()
        if let mount = table.top(at: resolved), mount.isTruce { return mount }
        guard let around = table.containing(resolved), around.isTruce else {
            throw CommandFailure(.notFound, "'\(resolved.shown)' is not mounted by truce")
        }
        throw CommandFailure(
            .notFound,
            "'\(resolved.shown)' is not a mountpoint; the mount around it is '\(around.mountpoint.shown)'")
    }

    /// Whom to wait for: nobody if there is no daemon, or one that does not answer in time.
    private static func daemon(of mount: MountEntry) -> (pid: Int32?, isSilent: Bool) {
        do throws(CommandFailure) {
            return (try DaemonClient.pid(of: mount), false)
        } catch {
            return (nil, error.status == .timedOut)
        }
    }

    private func failure(
        _ obstacle: Detaching.Obstacle, _ mount: MountEntry, isSilent: Bool
    ) -> CommandFailure {
        let place = mount.mountpoint.shown
        return switch obstacle {
        // By the question that was not answered, if by nothing else.
        case .busy where isSilent:
            CommandFailure(
                .timedOut,
                "'\(place)' is busy, and its daemon does not answer; 'truce unmount --lazy' takes it away"
            )
        case .busy: CommandFailure(.failed, "'\(place)' is busy: \(BusyReport.text(of: mount))")
        case .notAllowed: CommandFailure(.denied, "'\(place)' was mounted by another user")
        case .other(let why): CommandFailure(.failed, "'\(place)' could not be unmounted: \(why)")
        }
    }
}

/// The daemon of a mount, to be waited for.
private struct Daemon: ~Copyable {
    /// How long a daemon may take to write what it owes and end.
    private static let patienceMilliseconds: CInt = 10_000
    private static let lazyPatienceMilliseconds: CInt = 2_000

    private let pid: Int32
    private let watch: OwnedDescriptor

    /// Nil if there is none: then there is nothing to wait for either.
    static func watched(_ pid: Int32?) -> Daemon? {
        guard let pid else { return nil }
        do throws(Errno) {
            return Daemon(pid: pid, watch: try OtherProcess.watch(pid))
        } catch {
            return nil
        }
    }

    /// Until then it holds the source, and the next mount would be refused.
    func awaitEnd(of mount: MountEntry, lazily: Bool) throws(CommandFailure) {
        // By another mount of the same daemon, such as a bind mount's, it is served on.
        let table = try MountFinder.table()
        guard !table.entries.contains(where: { $0.device == mount.device }) else { return }
        let patience = lazily ? Self.lazyPatienceMilliseconds : Self.patienceMilliseconds
        guard !OtherProcess.ends(watch, within: patience) else { return }
        let keepers = Self.keepers(of: mount)
        if lazily {
            LineOutput.write(
                "truce: pid \(pid) goes on serving files that are still open\(keepers)\n", to: STDOUT_FILENO)
        } else {
            throw CommandFailure(
                .timedOut,
                "'\(mount.mountpoint.shown)' is unmounted, but its daemon (pid \(pid)) has not ended\(keepers)"
            )
        }
    }

    private static let mostNamed = 4

    /// Who keeps it, as far as the caller may see; empty if nobody is seen.
    private static func keepers(of mount: MountEntry) -> String {
        let pins: MountPins
        do throws(Errno) { pins = try MountPins(of: mount.device) } catch { return "" }
        let said = [
            ("it is in use by", pins.inside.holders),
            ("it is mounted in the mount namespace of", pins.namespaces),
        ].filter { !$0.1.isEmpty }.map { words, holders in
            let named = holders.prefix(mostNamed).map { "pid \($0.pid) (\($0.program.shown))" }
            let more = holders.count > mostNamed ? [" and \(holders.count - mostNamed) more"] : []
            return words + " " + (named.joined(separator: ", ") + more.joined())
        }
        return said.isEmpty ? "" : ": " + said.joined(separator: "; ")
    }
}

/// Who keeps a mount busy, in a sentence.
private enum BusyReport {
    private static let mostNamed = 8

    static func text(of mount: MountEntry) -> String {
        let scan: ProcessScan
        do throws(Errno) {
            scan = try ProcessScan(usersOf: mount)
        } catch {
            return "who uses it cannot be found out (\(error))"
        }
        var parts = scan.busy.prefix(mostNamed).map { busy in
            "pid \(busy.pid) (\(busy.program.shown)) \(busy.use.rawValue) \(busy.path.shown)"
        }
        if scan.busy.count > mostNamed { parts.append("\(scan.busy.count - mostNamed) more") }
        if parts.isEmpty { parts.append("nobody you may look at uses it") }
        if scan.hidden > 0 { parts.append("processes of other users were not looked at") }
        return parts.joined(separator: "; ")
    }
}
