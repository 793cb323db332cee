// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// Taking a mount away: by the system call as root, by `fusermount3` as anybody else.
package enum Unmounting {
    private static let programs = ["/usr/bin/fusermount3", "/bin/fusermount3", "/usr/local/bin/fusermount3"]

    /// Returns what went wrong, if anything did.
    package static func unmount(_ mountpoint: String, lazily: Bool) -> Errno? {
        guard geteuid() != 0 else {
            return clinux_umount(mountpoint, lazily ? 1 : 0) == 0 ? nil : .last
        }
        var arguments = ["fusermount3", "-u", "-q"].map { Array($0.utf8) }
        if lazily { arguments.append(Array("-z".utf8)) }
        arguments += [Array("--".utf8), Array(mountpoint.utf8)]
        guard let path = programs.first(where: { access($0, X_OK) == 0 }) else { return .noEntry }
        do throws(Errno) {
            let spawning = Spawning(path, arguments: arguments, environment: ["PATH=/usr/bin:/bin"])
            let child = try spawning.start()
            return try OtherProcess.exitCode(of: child) == 0 ? nil : .busy
        } catch {
            return error
        }
    }
}

extension MountEntry {
    /// Takes this very mount away, lazily, wherever it is by now: what is at its former place may be somebody else's. Returns
    /// whether it was still there, in the caller's mount namespace. What is mounted in it goes with it, and is named before.
    ///
    /// Throws EBUSY if another mount covers it.
    package func detach(naming inside: ([MountEntry]) -> Void) throws(Errno) -> Bool {
        let table = try MountTable.current()
        guard let present = table.entry(id: id), isSame(as: present) else { return false }
        guard table.top(at: present.mountpoint)?.id == id else { throw .busy }
        let others = table.mounts(in: id)
        if !others.isEmpty { inside(others) }
        guard geteuid() == 0 else {
            let place = String(decoding: present.mountpoint, as: UTF8.self)
            if let error = Unmounting.unmount(place, lazily: true) { throw error }
            return true
        }
        // Opened once: whatever is renamed above it from here on, it is this mount that goes.
        let root = try OwnedDescriptor.openResolved(present.mountpoint)
        guard root.mountID == id else { throw .busy }
        guard clinux_detach(root.rawValue) == 0 else { throw .last }
        return true
    }

    /// Numbers of mounts and devices are handed out again.
    private func isSame(as other: MountEntry) -> Bool {
        device == other.device && type == other.type && source == other.source
    }
}

extension MountTable {
    /// What is mounted in a mount, and in that.
    package func mounts(in id: Int) -> [MountEntry] {
        var (found, inside): ([MountEntry], Set<Int>) = ([], [id])
        // Whatever is mounted in another mount need not come after it.
        while true {
            let more = entries.filter { inside.contains($0.parent) && !inside.contains($0.id) }
            if more.isEmpty { return found }
            found += more
            inside.formUnion(more.map(\.id))
        }
    }
}
