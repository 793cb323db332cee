// SPDX-License-Identifier: Apache-2.0
import ControlClient
import Glibc
import LinuxSystem

/// Replaces dead mounts, which a killed daemon leaves behind: paths at which every call fails.
enum DeadMountReplacement {
    /// The most mounts that are stacked at one path.
    private static let mostStacked = 16

    /// Returns the path without links, in its real bytes and not in printable form: control characters belong to it.
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

    /// Takes away the caller's dead mounts at a path without links, and reports it.
    static func removeAll(at path: [UInt8]) throws(CommandFailure) {
        for _ in 0..<mostStacked {
            guard try isDead(path) else { return }
            try detach(path)
        }
        throw CommandFailure(.failed, "'\(path.printable)' is covered by too many dead mounts")
    }

    /// Whether the mount there is dead; fails if its daemon does not answer at all.
    static func isDead(_ path: [UInt8]) throws(CommandFailure) -> Bool {
        let table = try MountFinder.table()
        guard let answer = BoundedWait.result(of: { DeadMountProbe.isDead(path, in: table) }) else {
            throw CommandFailure(silenceOf: path)
        }
        return answer
    }

    /// Opens the directory below a dead mount that stays until the new mount is in its place. Nil if there is no such mount, or
    /// it must be taken away first: for users, on file systems without file handles, and where mounts are stacked.
    static func openCovered(by argument: String) throws(CommandFailure) -> OwnedDescriptor? {
        guard geteuid() == 0, try isReplaceable(at: argument) else { return nil }
        let (table, typed) = (try MountFinder.table(), Array(try RawArgument.text(of: argument).utf8))
        do throws(Errno) {
            return try DeadMountProbe.openCovered(try ResolvedPath.bytes(of: typed), in: table)
        } catch {
            return nil
        }
    }

    /// Whether two arguments lead to the same place.
    static func areSame(_ one: String, _ other: String) throws(CommandFailure) -> Bool {
        let (one, other) = (
            Array(try RawArgument.text(of: one).utf8), Array(try RawArgument.text(of: other).utf8)
        )
        do throws(Errno) {
            return try ResolvedPath.bytes(of: one) == ResolvedPath.bytes(of: other)
        } catch {
            // The code that opens them reports the wrong argument.
            return one == other
        }
    }

    /// Whether a mount here would first take a dead mount away; fails if that mount is not the caller's.
    static func isReplaceable(at argument: String) throws(CommandFailure) -> Bool {
        try isReplaceable(try resolve(argument))
    }

    /// The same for a path without links.
    static func isReplaceable(_ path: [UInt8]) throws(CommandFailure) -> Bool {
        guard try isDead(path) else { return false }
        try checkOwner(of: path)
        return true
    }

    /// Fails if a dead mount there shows another directory, because its replacement would show the directory that it covers.
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
                // Detached by descriptor, because a directory above may be renamed meanwhile.
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

    /// Returns the mounts inside a dead mount, which go with it.
    static func mounts(inOneAt path: [UInt8]) throws(CommandFailure) -> [MountEntry] {
        let table = try MountFinder.table()
        return table.top(at: path).map { table.mounts(in: $0.id) } ?? []
    }

    /// The same for the dead mount that a new mount replaces.
    static func mounts(inOneReplacedBy target: MountPlan.Target) throws(CommandFailure) -> [MountEntry] {
        target.replacesDeadMount ? try mounts(inOneAt: Array(target.mountpoint.utf8)) : []
    }

    static func say(_ path: String, with inside: [MountEntry]) {
        let places = inside.map { "'\($0.mountpoint.printable)'" }.joined(separator: ", ")
        let others = inside.isEmpty ? "" : ", and with it what was mounted in it: \(places)"
        LineOutput.say("truce: removed a dead mount at '\(path.printable)'\(others)", to: STDOUT_FILENO)
    }
}
