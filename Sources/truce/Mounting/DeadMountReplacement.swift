// SPDX-License-Identifier: Apache-2.0
import ControlClient
import Glibc
import LinuxSystem

/// Replaces dead mounts. A dead mount remains when a daemon is killed: every call on a path in it fails.
enum DeadMountReplacement {
    /// The most dead mounts that are removed at the same path, where they can lie on top of each other.
    private static let mostStacked = 16

    /// Returns the path of an argument, with symbolic links replaced by their targets.
    ///
    /// The path may contain control characters, so it must not be printed as it is.
    static func path(of argument: String) throws(CommandFailure) -> String {
        let resolved = try resolve(argument)
        let path = String(decoding: resolved, as: UTF8.self)
        guard path.utf8.elementsEqual(resolved) else {
            throw CommandFailure(
                .failed,
                "'\(argument.printable)' is '\(resolved.printable)', which is not UTF-8, as paths of mounts must be"
            )
        }
        return path
    }

    private static func resolve(_ argument: String) throws(CommandFailure) -> [UInt8] {
        let typed = Array(try RawArgument.text(of: argument).utf8)
        do throws(Errno) {
            return try ResolvedPath.bytes(of: typed)
        } catch {
            throw MountPlan.describe(error, argument)
        }
    }

    /// Removes the caller's dead mounts at a path, and prints a line for each. The path must not contain symbolic
    /// links.
    static func removeAll(at path: [UInt8]) throws(CommandFailure) {
        for _ in 0..<mostStacked {
            guard try isDead(path) else { return }
            try detach(path)
        }
        throw CommandFailure(.failed, "'\(path.printable)' is covered by too many dead mounts")
    }

    /// Returns whether the mount at a path is dead. Fails if the mount gives no answer within 5 s.
    static func isDead(_ path: [UInt8]) throws(CommandFailure) -> Bool {
        let table = try MountFinder.table()
        guard let answer = BoundedWait.result(of: { DeadMountProbe.isDead(path, in: table) }) else {
            throw CommandFailure(silenceOf: path)
        }
        return answer
    }

    /// Opens the directory below a dead mount. The dead mount then stays until the new mount replaces it.
    ///
    /// Returns nil if there is no dead mount, or if the dead mount must be removed before the new mount is made. It
    /// must be removed for users other than root, on file systems without file handles, and where several mounts lie on
    /// top of each other.
    static func openCovered(by argument: String) throws(CommandFailure) -> OwnedDescriptor? {
        guard geteuid() == 0, try isReplaceable(at: argument) else { return nil }
        let (table, typed) = (try MountFinder.table(), Array(try RawArgument.text(of: argument).utf8))
        do throws(Errno) {
            return try DeadMountProbe.openCovered(try ResolvedPath.bytes(of: typed), in: table)
        } catch {
            return nil
        }
    }

    /// Returns whether two arguments lead to the same path.
    static func areSame(_ one: String, _ other: String) throws(CommandFailure) -> Bool {
        let (one, other) = (
            Array(try RawArgument.text(of: one).utf8), Array(try RawArgument.text(of: other).utf8)
        )
        do throws(Errno) {
            return try ResolvedPath.bytes(of: one) == ResolvedPath.bytes(of: other)
        } catch {
            // The error is not reported here. The code that opens the two paths later reports it.
            return one == other
        }
    }

    /// Returns whether there is a dead mount at the argument's path. Fails if the dead mount belongs to another user.
    static func isReplaceable(at argument: String) throws(CommandFailure) -> Bool {
        try isReplaceable(try resolve(argument))
    }

    /// Returns whether there is a dead mount at a path without symbolic links. Fails if the dead mount belongs to
    /// another user.
    static func isReplaceable(_ path: [UInt8]) throws(CommandFailure) -> Bool {
        guard try isDead(path) else { return false }
        try checkOwner(of: path)
        return true
    }

    /// Fails if the dead mount at the path shows a source that is at another path. A new in-place mount would show the
    /// directory below the dead mount, and not that source.
    static func checkIsInPlace(at argument: String) throws(CommandFailure) {
        let path = try resolve(argument)
        let mount = try MountFinder.table().top(at: path)
        guard let mount, mount.isTruce, mount.source != mount.mountpoint, try isDead(path) else { return }
        let (source, place) = (mount.source.printable, mount.mountpoint.printable)
        throw CommandFailure(
            .failed,
            """
            '\(place)' is a dead mount of '\(source)': 'truce mount \(source) \(place)' replaces it, 'truce unmount \
            \(place)' takes it away
            """)
    }

    private static func checkOwner(of path: [UInt8]) throws(CommandFailure) {
        let mount = try MountFinder.table().top(at: path)
        guard let mount, mount.isTruce, geteuid() == 0 || mount.user == geteuid() else {
            let type = mount?.type ?? "unknown"
            throw CommandFailure(
                .failed,
                "'\(path.printable)' is a dead mount of type \(type) that is not yours; unmount it first"
            )
        }
    }

    private static func detach(_ path: [UInt8]) throws(CommandFailure) {
        try checkOwner(of: path)
        let inside = try mounts(inOneAt: path)
        do {
            if geteuid() == 0 {
                // Root removes the mount by a descriptor of its root and not by its path, because another process may
                // rename a directory on the path.
                try DeadMountRoot(at: path, in: MountFinder.table())?.detach()
            } else {
                try MountDetachment.detachAsUser(path, lazily: true)
            }
        } catch {
            throw CommandFailure(
                .failed, "the dead mount at '\(path.printable)' could not be removed: \(error)")
        }
        say(String(decoding: path, as: UTF8.self), with: inside)
    }

    /// Returns the mounts inside a dead mount. When the dead mount is removed, they disappear as well.
    static func mounts(inOneAt path: [UInt8]) throws(CommandFailure) -> [MountEntry] {
        let table = try MountFinder.table()
        return table.top(at: path).map { table.mounts(in: $0.id) } ?? []
    }

    /// Returns the mounts inside the dead mount that the new mount replaces. Returns none if the new mount replaces no
    /// dead mount.
    static func mounts(inOneReplacedBy target: MountPlan.Target) throws(CommandFailure) -> [MountEntry] {
        target.replacesDeadMount ? try mounts(inOneAt: Array(target.mountpoint.utf8)) : []
    }

    static func say(_ path: String, with inside: [MountEntry]) {
        let places = inside.map { "'\($0.mountpoint.printable)'" }.joined(separator: ", ")
        let others = inside.isEmpty ? "" : ", and with it what was mounted in it: \(places)"
        LineOutput.say("truce: removed a dead mount at '\(path.printable)'\(others)", to: STDOUT_FILENO)
    }
}
