// SPDX-License-Identifier: Apache-2.0
import ControlClient
import ControlServer
import FilesystemServer
import Glibc
import LinuxSystem

/// The checked plan of a mount: all checks that are possible before the daemon starts have succeeded.
struct MountPlan: ~Copyable {
    /// The source, mountpoint and options of a mount.
    struct Target: Hashable, Sendable {
        var source: String
        var mountpoint: String
        var options: MountOptions
        /// Whether the new mount replaces a dead mount.
        var replacesDeadMount = false

        var isInPlace: Bool { source == mountpoint }
    }

    let target: Target
    /// An `O_PATH` descriptor of the source. It is opened before the mount is made, because the mount may cover the
    /// source.
    let source: OwnedDescriptor
    /// A second descriptor of the source. Unlike the first, it can be locked.
    let lock: OwnedDescriptor

    init(source: String, mountpoint: String?, options: MountOptions) throws(CommandFailure) {
        try Self.checkDevice()
        let mountpoint = try mountpoint.flatMap { (path) throws(CommandFailure) in
            try DeadMountReplacement.areSame(source, path) ? nil : path
        }
        let isInPlace = mountpoint == nil
        if isInPlace { try DeadMountReplacement.checkIsInPlace(at: source) }
        var covered = try DeadMountReplacement.openCovered(by: mountpoint ?? source)
        let isReplacing = covered != nil
        let mountpointPath = try DeadMountReplacement.path(of: mountpoint ?? source)
        let sourcePath = isInPlace ? mountpointPath : try DeadMountReplacement.path(of: source)
        var target = Target(
            source: sourcePath, mountpoint: mountpointPath, options: options, replacesDeadMount: isReplacing)
        try Self.checkUserRights(options)
        try Self.removeDeadMounts(of: target)
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

    /// Checks a mount. If the paths give no answer within 10 s, the process ends with exit code `code`.
    static func make(
        source: String, mountpoint: String?, options: MountOptions,
        exitCode code: Int32 = ExitStatus.timedOut.rawValue
    ) throws -> MountPlan {
        let places = [source, mountpoint].compactMap { $0 }.map { "'\($0.printable)'" }
        return try Watchdog.withDeadline(exitCode: code, naming: places.joined(separator: " or ")) {
            try MountPlan(source: source, mountpoint: mountpoint, options: options)
        }
    }

    /// Removes the dead mounts at the source and at the mountpoint.
    ///
    /// All checks that are possible come before the removal. So if the mount is refused, the dead mounts are not
    /// removed.
    private static func removeDeadMounts(of target: Target) throws(CommandFailure) {
        var dead: [String] = []
        if !target.replacesDeadMount, try DeadMountReplacement.isReplaceable(Array(target.mountpoint.utf8)) {
            dead.append(target.mountpoint)
        }
        if !target.isInPlace, try DeadMountReplacement.isReplaceable(Array(target.source.utf8)) {
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
        for place in dead { try DeadMountReplacement.removeAll(at: Array(place.utf8)) }
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
            // The existing mount's daemon does not answer, so the message contains this fact in place of the daemon's process
            // ID.
            who = " (\(error.message))"
        }
        throw CommandFailure(.failed, "'\(mountpoint.printable)' is already mounted by truce\(who)")
    }

    private static func openDirectory(_ path: String) throws(CommandFailure) -> OwnedDescriptor {
        // The symbolic links in this path were already replaced. If there is a symbolic link now, it is new, and leads
        // to a directory that was not checked.
        do throws(Errno) { return try OwnedDescriptor.openResolved(Array(path.utf8)) } catch {
            throw describe(error, path)
        }
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
        let path = path.printable
        return switch error {
        case .noEntry: CommandFailure(.notFound, "there is no directory '\(path)'")
        case .notADirectory: CommandFailure(.failed, "'\(path)' is not a directory")
        case .noAccess: CommandFailure(.failed, "you have no permission to open '\(path)'")
        default: CommandFailure(.failed, "'\(path)' cannot be opened: \(error)")
        }
    }
}

extension MountPlan.Target {
    /// Adds the restrictions of the mount on which the source lies. For users other than root, fusermount3 always adds
    /// nosuid and nodev.
    fileprivate mutating func inherit(from below: MountEntry?) throws(CommandFailure) {
        guard let below else { return }
        guard !below.isTruce else {
            throw CommandFailure(
                .failed, "'\(source.printable)' is inside the truce mount at '\(below.mountpoint.printable)'")
        }
        guard below.type != "autofs" else {
            let place = below.mountpoint.printable
            throw CommandFailure(
                .failed,
                """
                '\(source.printable)' is hidden by the automounter at '\(place)'; leave x-systemd.automount out, or \
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

/// The settings in `/etc/fuse.conf`.
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
