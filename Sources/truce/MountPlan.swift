// SPDX-License-Identifier: Apache-2.0
import ControlClient
import ControlServer
import CoordinatedFilesystem
import Glibc
import LinuxSystem

/// Everything that can be found out, and put right, before a mount is tried.
struct MountPlan: ~Copyable {
    /// What is mounted where.
    struct Target: Hashable, Sendable {
        var source: String
        var mountpoint: String
        var options: MountOptions
        /// Whether the mount is to take the place of a dead one.
        var replacesDeadMount = false

        var isInPlace: Bool { source == mountpoint }
    }

    let target: Target
    /// `O_PATH`, opened before the mount that may cover it.
    let source: OwnedDescriptor
    /// The same directory, opened so that it can be locked.
    let lock: OwnedDescriptor

    init(source: String, mountpoint: String?, options: MountOptions) throws(CommandFailure) {
        try Self.checkDevice()
        let mountpoint = try mountpoint.flatMap { (path) throws(CommandFailure) in
            try DeadMount.areSame(source, path) ? nil : path
        }
        let isInPlace = mountpoint == nil
        var covered = try DeadMount.openCovered(by: mountpoint ?? source)
        let isReplacing = covered != nil
        let mountpointPath = try DeadMount.path(of: mountpoint ?? source)
        let sourcePath = isInPlace ? mountpointPath : try DeadMount.path(of: source)
        var target = Target(
            source: sourcePath, mountpoint: mountpointPath, options: options, replacesDeadMount: isReplacing)
        try Self.checkUserRights(options)
        try Self.clearTheWay(of: target)
        let table = try MountFinder.table()
        if !isReplacing { try Self.checkNotMounted(target.mountpoint, table) }
        let descriptor = try Self.openSource(sourcePath, covered: isInPlace ? covered.take() : nil)
        let lock = try Self.openLockable(descriptor, sourcePath)
        if !isInPlace, !isReplacing { _ = try Self.openDirectory(target.mountpoint) }
        try target.inherit(from: descriptor.mountID.flatMap { table.entry(id: $0) })
        try MountOverlap(of: target, with: table).check()
        self.source = descriptor
        self.lock = lock
        self.target = target
    }

    /// The same, unless what the paths lead to takes longer than 10 s to answer: then the process ends with a code.
    static func made(
        source: String, mountpoint: String?, options: MountOptions,
        orEndingWith code: Int32 = ExitStatus.timedOut.rawValue
    ) throws -> MountPlan {
        let places = [source, mountpoint].compactMap { $0 }.map { "'\($0.shown)'" }
        return try Watchdog.guarding(endingWith: code, naming: places.joined(separator: " or ")) {
            try MountPlan(source: source, mountpoint: mountpoint, options: options)
        }
    }

    /// Takes away the dead mounts that are in the way, after everything that can be looked at while they are there: a
    /// mount that is refused leaves them.
    private static func clearTheWay(of target: Target) throws(CommandFailure) {
        var dead: [String] = []
        if !target.replacesDeadMount, try DeadMount.isReplaceable(Array(target.mountpoint.utf8)) {
            dead.append(target.mountpoint)
        }
        if !target.isInPlace, try DeadMount.isReplaceable(Array(target.source.utf8)) {
            dead.append(target.source)
        }
        guard !dead.isEmpty else { return }
        let table = try MountFinder.table()
        try MountOverlap(of: target, with: table).check()
        if !dead.contains(target.source), !target.isInPlace { try checkSource(of: target, table) }
        if !dead.contains(target.mountpoint), !target.replacesDeadMount {
            try checkNotMounted(target.mountpoint, table)
            _ = try openDirectory(target.mountpoint)
        }
        for place in dead { try DeadMount.takeAway(at: Array(place.utf8)) }
    }

    private static func checkSource(of target: Target, _ table: MountTable) throws(CommandFailure) {
        let descriptor = try openDirectory(target.source)
        _ = try openLockable(descriptor, target.source)
        var target = target
        try target.inherit(from: descriptor.mountID.flatMap { table.entry(id: $0) })
    }

    private static func checkDevice() throws(CommandFailure) {
        do throws(Errno) {
            _ = OwnedDescriptor(adopting: try retryingOnInterrupt { open("/dev/fuse", O_RDWR | O_CLOEXEC) })
        } catch {
            switch error {
            case .noAccess, .notPermitted:
                throw CommandFailure(
                    .failed,
                    "no permission to open /dev/fuse; mount as root (sudo, or Scripts/start --system)"
                )
            case .noEntry, .noDevice, .noAddress:
                throw CommandFailure(
                    .failed, "there is no /dev/fuse; load the kernel module (sudo modprobe fuse)")
            default: throw CommandFailure(.failed, "/dev/fuse cannot be opened: \(error)")
            }
        }
    }

    private static func checkUserRights(_ options: MountOptions) throws(CommandFailure) {
        guard geteuid() != 0 else { return }
        guard Fusermount.path != nil else { throw CommandFailure(.failed, Fusermount.absence) }
        guard options.allowOther else { return }
        guard FuseConfiguration.allowsOther else {
            throw CommandFailure(
                .failed, "allow_other needs a line 'user_allow_other' in /etc/fuse.conf, or root")
        }
    }

    private static func checkNotMounted(_ mountpoint: String, _ table: MountTable) throws(CommandFailure) {
        guard let mount = table.top(at: Array(mountpoint.utf8)), mount.isTruce else { return }
        var who = ""
        do throws(CommandFailure) {
            who = " by pid \(try DaemonClient.pid(of: mount))"
        } catch {
            // A daemon that does not answer has mounted it all the same.
            who = " (\(error.message))"
        }
        throw CommandFailure(.failed, "'\(mountpoint.shown)' is already mounted by truce\(who)")
    }

    private static func openDirectory(_ path: String) throws(CommandFailure) -> OwnedDescriptor {
        do throws(Errno) { return try OwnedDescriptor.openPath(path) } catch { throw describe(error, path) }
    }

    private static func openSource(
        _ path: String, covered: consuming OwnedDescriptor?
    ) throws(CommandFailure) -> OwnedDescriptor {
        if let covered = consume covered { return covered }
        return try openDirectory(path)
    }

    private static func openLockable(
        _ directory: borrowing OwnedDescriptor, _ path: String
    ) throws(CommandFailure) -> OwnedDescriptor {
        do throws(Errno) { return try directory.openForListing() } catch {
            throw describe(error, path)
        }
    }

    static func describe(_ error: Errno, _ path: String) -> CommandFailure {
        let path = path.shown
        return switch error {
        case .noEntry: CommandFailure(.notFound, "there is no directory '\(path)'")
        case .notADirectory: CommandFailure(.failed, "'\(path)' is not a directory")
        case .noAccess: CommandFailure(.failed, "you have no permission to open '\(path)'")
        default: CommandFailure(.failed, "'\(path)' cannot be opened: \(error)")
        }
    }
}

extension MountPlan.Target {
    /// A mount takes over what the mount below forbids; fusermount3 forbids users two things always.
    fileprivate mutating func inherit(from below: MountEntry?) throws(CommandFailure) {
        guard let below else { return }
        guard !below.isTruce else {
            throw CommandFailure(
                .failed, "'\(source.shown)' is inside the truce mount at '\(below.mountpoint.shown)'")
        }
        guard below.type != "autofs" else {
            let place = below.mountpoint.shown
            throw CommandFailure(
                .failed,
                """
                '\(source.shown)' is hidden by the automounter at '\(place)'; leave x-systemd.automount out, or \
                mount another directory there
                """)
        }
        let isUser = geteuid() != 0
        options.readOnly = options.readOnly || below.has("ro")
        options.nosuid = options.nosuid || isUser || below.has("nosuid")
        options.nodev = options.nodev || isUser || below.has("nodev")
        options.noexec = options.noexec || below.has("noexec")
    }
}

/// `/etc/fuse.conf`.
package enum FuseConfiguration {
    static var allowsOther: Bool {
        guard let text = readSmallFile("/etc/fuse.conf") else { return false }
        return allowsOther(text)
    }

    package static func allowsOther(_ text: [UInt8]) -> Bool {
        String(decoding: text, as: UTF8.self).split(separator: "\n").contains { line in
            line.split { $0 == " " || $0 == "\t" }.elementsEqual(["user_allow_other"])
        }
    }
}

/// What a daemon that was killed leaves behind: a path at which every call fails.
enum DeadMount {
    /// Mounts may be stacked; nobody has more.
    private static let mostStacked = 16

    /// The path without links, as it is and not as it is shown: control characters belong to it.
    static func path(of argument: String) throws(CommandFailure) -> String {
        let resolved = try resolve(argument)
        let path = String(decoding: resolved, as: UTF8.self)
        guard path.utf8.elementsEqual(resolved) else {
            throw CommandFailure(
                .failed,
                "'\(argument.shown)' is '\(resolved.shown)', which is not UTF-8, as paths of mounts must be")
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

    /// Takes our own dead mounts at a path without links away, and says so.
    static func takeAway(at path: [UInt8]) throws(CommandFailure) {
        for _ in 0..<mostStacked {
            guard try isDead(path) else { return }
            try detach(path)
        }
        throw CommandFailure(.failed, "'\(path.shown)' is covered by too many dead mounts")
    }

    /// Fails if the daemon of a mount there does not say anything at all.
    static func isDead(_ path: [UInt8]) throws(CommandFailure) -> Bool {
        let table = try MountFinder.table()
        guard let answer = BoundedWait.result(of: { DeadMounts.isDead(path, in: table) }) else {
            throw CommandFailure(silenceOf: path)
        }
        return answer
    }

    /// Opens the directory below a dead mount that stays until the new one is in its place. Nothing if there is none, or
    /// it has to be taken away first: for users, on file systems without file handles, and where mounts are stacked.
    static func openCovered(by argument: String) throws(CommandFailure) -> OwnedDescriptor? {
        guard geteuid() == 0, try isReplaceable(at: argument) else { return nil }
        let (table, typed) = (try MountFinder.table(), Array(try RawArgument.text(of: argument).utf8))
        do throws(Errno) {
            return try DeadMounts.openCovered(try ResolvedPath.bytes(of: typed), in: table)
        } catch {
            return nil
        }
    }

    /// Whether two arguments lead to one place.
    static func areSame(_ one: String, _ other: String) throws(CommandFailure) -> Bool {
        let (one, other) = (
            Array(try RawArgument.text(of: one).utf8), Array(try RawArgument.text(of: other).utf8)
        )
        do throws(Errno) {
            return try ResolvedPath.bytes(of: one) == ResolvedPath.bytes(of: other)
        } catch {
            // Whoever opens them says which of them is wrong.
            return one == other
        }
    }

    /// Whether a mount here would take a dead one away first; fails if that one is not the caller's.
    static func isReplaceable(at argument: String) throws(CommandFailure) -> Bool {
        try isReplaceable(try resolve(argument))
    }

    /// The same of a path without links.
    static func isReplaceable(_ path: [UInt8]) throws(CommandFailure) -> Bool {
        guard try isDead(path) else { return false }
        try checkOwner(of: path)
        return true
    }

    private static func checkOwner(of path: [UInt8]) throws(CommandFailure) {
        let mount = try MountFinder.table().top(at: path)
        guard let mount, mount.isTruce, geteuid() == 0 || mount.user == geteuid() else {
            let type = mount?.type ?? "unknown"
            throw CommandFailure(
                .failed, "'\(path.shown)' is a dead mount of type \(type) that is not yours; unmount it first"
            )
        }
    }

    private static func detach(_ path: [UInt8]) throws(CommandFailure) {
        try checkOwner(of: path)
        do throws(Detaching.Obstacle) {
            try Detaching.detach(path, lazily: true)
        } catch {
            throw CommandFailure(
                .failed, "the dead mount at '\(path.shown)' could not be taken away: \(error)")
        }
        say(String(decoding: path, as: UTF8.self))
    }

    static func say(_ path: String) {
        LineOutput.write("truce: took away a dead mount at '\(path.shown)'\n", to: STDOUT_FILENO)
    }
}
