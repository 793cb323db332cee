// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// Removes a mount. Root uses the system call; any other user runs `fusermount3`.
package enum MountRemoval {
    private static let programs = ["/usr/bin/fusermount3", "/bin/fusermount3", "/usr/local/bin/fusermount3"]

    /// Unmounts the file system at a path. Returns nil on success, and the error otherwise.
    package static func unmount(_ mountpoint: [UInt8], lazily: Bool) -> Errno? {
        guard geteuid() != 0 else {
            return mountpoint.withPath { clinux_umount($0, lazily ? 1 : 0) } == 0 ? nil : .last
        }
        var arguments = ["fusermount3", "-u", "-q"].map { Array($0.utf8) }
        if lazily { arguments.append(Array("-z".utf8)) }
        arguments += [Array("--".utf8), mountpoint]
        guard let path = programs.first(where: { access($0, X_OK) == 0 }) else { return .noEntry }
        do throws(Errno) {
            let spawner = ProcessSpawner(path, arguments: arguments, environment: ["PATH=/usr/bin:/bin"])
            let child = try spawner.start()
            return try OtherProcess.exitCode(of: child) == 0 ? nil : .busy
        } catch {
            return error
        }
    }
}

extension MountEntry {
    /// The maximum number of attempts to remove a mount, if another process moves the mount between the steps of each attempt.
    private static let mostMoves = 16

    /// Removes this mount as root if no process uses it.
    ///
    /// The mount can have moved, and another user's mount can be at its former path. So the method finds the path that the
    /// mount has now. An open descriptor of the mount's root would count as a use. So the method opens the parent directory,
    /// and checks which mount is at the name in it. After this check the name is safe: in this mount namespace, the kernel
    /// neither renames nor removes a mountpoint. Tests pass `beforeUnmount`, which runs between the check and the removal.
    ///
    /// Throws EBUSY if the mount is in use. Throws ESTALE if the mount does not exist any more or moves at every attempt.
    package func unmountUnused(beforeUnmount: () throws(Errno) -> Void = {}) throws(Errno) {
        for _ in 1...Self.mostMoves {
            guard let present = try MountTable.current().entry(id: id), isSame(as: present) else {
                throw .stale
            }
            let slash = UInt8(ascii: "/")
            guard let last = present.mountpoint.lastIndex(of: slash), last + 1 < present.mountpoint.count
            else { throw .busy }
            let name = NameBytes(Array(present.mountpoint[(last + 1)...]))
            let path = Array(present.mountpoint[..<max(last, 1)])
            guard let above = try Self.directory(path, with: name, of: id) else { continue }
            try beforeUnmount()
            let result = name.withName { clinux_umount_in(above.rawValue, $0.bytes) }
            guard result == 0 else { throw .last }
            return
        }
        throw .stale
    }

    /// Opens the directory that contains the mountpoint. Returns nil if the mount is not at this path any more.
    private static func directory(
        _ path: [UInt8], with name: NameBytes, of mount: Int
    ) throws(Errno) -> OwnedDescriptor? {
        do throws(Errno) {
            let directory = try OwnedDescriptor.openResolved(path)
            guard try directory.mount(at: name) == mount else { return nil }
            return directory
        } catch {
            switch error {
            case .noEntry, .notADirectory, .linkLoop: return nil
            default: throw error
            }
        }
    }

    /// Removes this mount lazily, together with the mounts inside it.
    ///
    /// The mount can have moved, and another user's mount can be at its former path. So the method finds the path that the
    /// mount has now. It calls `inside` with the inner mounts before it removes them. Returns whether the mount still existed
    /// in the caller's mount namespace.
    ///
    /// Throws EBUSY if another mount covers this mount and the caller has no right to open directories behind that mount.
    package func detach(naming inside: ([MountEntry]) -> Void) throws(Errno) -> Bool {
        var isNamed = false
        for _ in 1..<Self.mostMoves {
            do throws(Errno) {
                return try detachHere { others in
                    if !isNamed { inside(others) }
                    isNamed = true
                }
            } catch {
                // A directory of the path was possibly renamed between two lookups, so that the path led to another mount. The
                // method then tries again.
                guard [.busy, .noEntry, .notADirectory, .linkLoop].contains(error) else { throw error }
            }
        }
        return try detachHere { if !isNamed { inside($0) } }
    }

    private func detachHere(naming inside: ([MountEntry]) -> Void) throws(Errno) -> Bool {
        let table = try MountTable.current()
        guard let present = table.entry(id: id), isSame(as: present) else { return false }
        let others = table.mounts(in: id)
        var unnamed = others
        // Mounts on the root of this mount are removed before it. They cover this mount, and would disappear together with it.
        while true {
            let root = try present.openTop(in: table, with: others)
            guard let seen = root.mountID, seen == id || others.contains(where: { $0.id == seen }) else {
                throw .busy
            }
            if !unnamed.isEmpty { inside(unnamed) }
            unnamed = []
            try Self.detach(root, at: present.mountpoint)
            if seen == id { return true }
        }
    }

    /// Compares the device, the type and the source. The mount's number is not enough, because the kernel gives the numbers of
    /// ended mounts and devices to new ones.
    private func isSame(as other: MountEntry) -> Bool {
        device == other.device && type == other.type && source == other.source
    }

    /// Opens the root of the topmost mount at this mount's path, which is this mount or a mount inside it.
    private func openTop(in table: MountTable, with others: [MountEntry]) throws(Errno) -> OwnedDescriptor {
        let top = table.top(at: mountpoint)?.id
        if top == id || others.contains(where: { $0.id == top }) {
            return try OwnedDescriptor.openResolved(mountpoint)
        }
        // Another mount covers a directory that contains this mount, so the path does not lead to this mount.
        guard geteuid() == 0, let around = table.entry(id: parent) else { throw .busy }
        let slash = UInt8(ascii: "/")
        var names = mountpoint.dropFirst(around.mountpoint.count).split(separator: slash).map { Array($0) }
        guard let name = names.popLast() else { throw .busy }
        let directory = try OwnedDescriptor.openResolved(around.mountpoint).openForListing()
        guard directory.mountID == around.id else { throw .busy }
        let above = names.isEmpty ? [UInt8(ascii: ".")] : Array(names.joined(separator: [slash]))
        let holding = try directory.openBehindMounts(above)
        return try NameBytes(name).withName { (name) throws(Errno) in try holding.path(of: name) }
    }

    /// Removes a mount lazily.
    ///
    /// If the user is root, the mount is removed by a descriptor of its root directory. This works even if a directory above
    /// the mount was renamed. For other users, `fusermount3` accepts only a path.
    private static func detach(_ root: borrowing OwnedDescriptor, at place: [UInt8]) throws(Errno) {
        if geteuid() != 0 {
            if let error = MountRemoval.unmount(place, lazily: true) { throw error }
        } else if clinux_detach(root.rawValue) != 0 {
            throw .last
        }
    }
}

extension MountTable {
    /// Returns all mounts inside a mount, including mounts inside inner mounts.
    package func mounts(in id: Int) -> [MountEntry] {
        var (found, inside): ([MountEntry], Set<Int>) = ([], [id])
        // One pass is not enough, because the table can list a mount before the mount that contains it.
        while true {
            let more = entries.filter { inside.contains($0.parent) && !inside.contains($0.id) }
            if more.isEmpty { return found }
            found += more
            inside.formUnion(more.map(\.id))
        }
    }
}
