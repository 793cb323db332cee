// SPDX-License-Identifier: Apache-2.0
import ControlClient
import ControlServer
import Glibc
import LinuxSystem

/// Checks that no two mounts would show the same files.
///
/// If two mounts showed the same files, programs in one mount would not take turns with programs in the other. Also, a
/// daemon might have to wait for claims in the other mount, or in its own. Only paths are compared, so an overlap
/// because of a bind mount is not found.
struct MountOverlap {
    private let target: MountPlan.Target
    private let table: MountTable

    init(of target: MountPlan.Target, with table: MountTable) {
        self.target = target
        self.table = table
    }

    func check() throws(CommandFailure) {
        let (source, mountpoint) = (Array(target.source.utf8), Array(target.mountpoint.utf8))
        if mountpoint.lies(inside: source) {
            throw CommandFailure(
                .failed, "'\(mountpoint.printable)' is inside '\(source.printable)', which it is to show")
        }
        try checkSocket(at: mountpoint)
        // Mounts of other users do not count, because any user can make a mount that pretends to show any source.
        for mount in table.entries where mount.isTruce && [0, geteuid()].contains(mount.user) {
            guard let sentence = overlap(of: source, at: mountpoint, with: mount), try isAlive(mount) else {
                continue
            }
            throw CommandFailure(.failed, sentence)
        }
    }

    /// Fails if the mount would cover the directory of the control sockets. The mount's own control socket would then
    /// be unreachable.
    private func checkSocket(at mountpoint: [UInt8]) throws(CommandFailure) {
        let places = SocketDirectory.candidates(
            user: geteuid(), runtimeDirectory: truce.environmentVariable("XDG_RUNTIME_DIR"))
        guard let place = places.first, Array(place.path.utf8).isPath(atOrBelow: mountpoint) else { return }
        throw CommandFailure(
            .failed,
            "'\(mountpoint.printable)' contains '\(place.path.printable)', where control sockets are; mount directories in it"
        )
    }

    private func overlap(of source: [UInt8], at mountpoint: [UInt8], with mount: MountEntry) -> String? {
        let place = mount.mountpoint.printable
        if mount.source.lies(inside: source) {
            return
                "'\(source.printable)' contains '\(mount.source.printable)', which truce has mounted at '\(place)'"
        }
        if mount.mountpoint.lies(inside: source) {
            return "'\(source.printable)' contains the truce mount at '\(place)'"
        }
        // An in-place mount covers its source, so programs reach the files of the source only through the mount.
        guard mount.source != mount.mountpoint else { return nil }
        return [source, mountpoint].first { $0.lies(inside: mount.source) }.map {
            "'\($0.printable)' is inside '\(mount.source.printable)', which truce has mounted at '\(place)'"
        }
    }

    /// Whether a daemon serves the mount. A mount that lies below another mount cannot be checked, and counts as dead.
    private func isAlive(_ mount: MountEntry) throws(CommandFailure) -> Bool {
        guard table.top(at: mount.mountpoint) == mount else { return false }
        return try !DeadMountReplacement.isDead(mount.mountpoint)
    }
}

extension [UInt8] {
    /// Whether this absolute path is below another path. False if the two paths are equal.
    fileprivate func lies(inside directory: [UInt8]) -> Bool {
        isPath(atOrBelow: directory) && self != directory
    }
}
