// SPDX-License-Identifier: Apache-2.0
import ControlClient
import Glibc
import LinuxSystem

/// The `truce mount` command under the names by which mount(8) runs it. The command line differs, but the resulting
/// mount is the same.
enum MountHelper {
    private static let names: Set<String> = ["mount.truce", "mount.fuse.truce"]

    /// Returns the arguments if mount(8) or mount.fuse3(8) has started this program. Returns nil if a user has started
    /// this program.
    static func arguments(of line: [String], subcommands: Set<String>) -> [String]? {
        guard let name = line.first.map(lastPart) else { return nil }
        let arguments = Array(line.dropFirst())
        if names.contains(name) { return arguments }
        return isCalledByMountFuse(arguments, subcommands) ? arguments : nil
    }

    /// Returns whether mount.fuse3(8) has started this program. mount.fuse3(8) starts this program by a shell, with the
    /// arguments `SOURCE DIR -o OPTIONS`. `SOURCE` and `DIR` are absolute paths if they exist.
    private static func isCalledByMountFuse(_ arguments: [String], _ subcommands: Set<String>) -> Bool {
        arguments.count == 4 && arguments[2] == "-o" && arguments[1].hasPrefix("/")
            && (arguments[0].hasPrefix("/") || arguments[0] == "none") && !subcommands.contains(arguments[0])
    }

    private static func lastPart(_ path: String) -> String {
        path.split(separator: "/").last.map(String.init) ?? path
    }

    static func run(_ arguments: [String], as path: String) -> Never {
        signal(SIGINT) { _ in _exit(MountHelperStatus.interrupted.rawValue) }
        do {
            let line = try MountHelperArguments(parsing: arguments)
            if line.wantsHelp {
                LineOutput.say("usage: \(lastPart(path)) \(MountHelperArguments.usage)", to: STDOUT_FILENO)
            } else {
                try mount(line)
            }
        } catch {
            let sentence = (error as? CommandFailure)?.message ?? "\(error)"
            LineOutput.say("\(lastPart(path)): \(sentence)", to: STDERR_FILENO)
            Glibc.exit(MountHelperStatus(of: error).rawValue)
        }
        Glibc.exit(MountHelperStatus.done.rawValue)
    }

    private static func mount(_ line: MountHelperArguments) throws {
        // With the option `drop_privileges`, mount.fuse3(8) has already made a mount, and no daemon serves it. Each
        // call on its path would wait, so this is checked before anything else.
        guard !line.directory.hasPrefix("/dev/fd/") else {
            throw CommandFailure(
                .usage,
                "'drop_privileges' takes away the rights with which the daemon acts for its users; unmount what mount.fuse3 "
                    + "has mounted already, and mount without it")
        }
        let options = try MountOptions(parsing: line.options, ignoringUnknown: line.isSloppy)
        // A process with two threads cannot change its mount namespace. So the namespace is changed before the second
        // thread starts.
        if let namespace = line.namespace { try enter(namespace) }
        // In fstab(5), the source `none` means an in-place mount.
        let (source, directory) =
            line.source == "none" ? (line.directory, nil) : (line.source, line.directory)
        if line.isFake {
            let code = MountHelperStatus.mountFailed.rawValue
            let dead = try Watchdog.withDeadline(exitCode: code, naming: "'\(line.directory)'") {
                try [source, directory].compactMap { $0 }.first { path in
                    try DeadMountReplacement.isReplaceable(at: path)
                }
            }
            if let dead { return say("a dead mount at '\(dead)' would be removed", if: line.isVerbose) }
        }
        // When `mount -a` runs a second time, mount(8) itself skips most file systems that are already mounted. It does not
        // skip in-place mounts, so this code skips them.
        if directory == nil, try isMounted(line.directory) {
            return say("'\(line.directory)' is mounted in place already", if: line.isVerbose)
        }
        let plan = try MountPlan.make(
            source: source, mountpoint: directory, options: options,
            exitCode: MountHelperStatus.mountFailed.rawValue)
        say("options: \(plan.target.options.words.joined(separator: ","))", if: line.isVerbose)
        guard !line.isFake else { return say("nothing was mounted, as asked for", if: line.isVerbose) }
        try DaemonLaunch(of: plan).run(isQuiet: !line.isVerbose)
    }

    private static func isMounted(_ directory: String) throws -> Bool {
        let code = MountHelperStatus.mountFailed.rawValue
        return try Watchdog.withDeadline(exitCode: code, naming: "'\(directory)'") {
            let path = Array(try DeadMountReplacement.path(of: directory).utf8)
            guard let mount = try MountFinder.table().top(at: path), mount.isTruce else { return false }
            return try mount.source == mount.mountpoint && !DeadMountReplacement.isDead(path)
        }
    }

    private static func enter(_ namespace: String) throws(CommandFailure) {
        do throws(Errno) {
            try MountNamespace.enter(Int32(namespace).map { "/proc/\($0)/ns/mnt" } ?? namespace)
        } catch {
            throw CommandFailure(.failed, "the mount namespace '\(namespace)' cannot be entered: \(error)")
        }
    }

    private static func say(_ sentence: String, if isVerbose: Bool) {
        if isVerbose { LineOutput.say("truce: \(sentence)", to: STDOUT_FILENO) }
    }
}
