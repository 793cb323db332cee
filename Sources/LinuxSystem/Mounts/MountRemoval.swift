// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// Removes a mount: by the system call as root, by `fusermount3` as another user.
package enum MountRemoval {
    private static let programs = ["/usr/bin/fusermount3", "/bin/fusermount3", "/usr/local/bin/fusermount3"]

    /// Unmounts, and returns the error, if any.
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
    /// The maximum number of attempts, since a mount may move before it is removed.
    private static let mostMoves = 16

    /// Removes this mount as root if it is unused, at its present place; its former place may belong to another user.
    ///
    /// An open root would be a use. So this method opens the parent directory, and checks which mount is under the name
    /// there. From then on the name is stable: in this mount namespace the kernel neither renames nor removes a mountpoint.
    /// It calls `beforeUnmount` in between, for tests.
    ///
    /// Throws EBUSY if the mount is in use, and ESTALE if it no longer exists or keeps moving.
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

    /// Opens a directory that has the mount under a name; returns nil if the mount is no longer there.
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

    /// Removes this mount lazily, at its present place; its former place may belong to another user.
    ///
    /// Returns whether the mount still existed in the caller's mount namespace. It also removes the mounts in it, which it
    /// passes to `inside` first.
    ///
    /// Throws EBUSY if another mount covers it and the caller may not look behind that mount.
    package func detach(naming inside: ([MountEntry]) -> Void) throws(Errno) -> Bool {
        var isNamed = false
        for _ in 1..<Self.mostMoves {
            do throws(Errno) {
                return try detachHere { others in
                    if !isNamed { inside(others) }
                    isNamed = true
                }
            } catch {
                // The path may have led elsewhere, because a parent directory was renamed between two lookups.
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
        // Mounts on its root cover it, and would be removed with it, so they are removed first.
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

    /// The kernel reuses the numbers of mounts and devices.
    private func isSame(as other: MountEntry) -> Bool {
        device == other.device && type == other.type && source == other.source
    }

    /// Opens the root of the last mount at this mount's place: this mount, or a mount in it.
    private func openTop(in table: MountTable, with others: [MountEntry]) throws(Errno) -> OwnedDescriptor {
        let top = table.top(at: mountpoint)?.id
        if top == id || others.contains(where: { $0.id == top }) {
            return try OwnedDescriptor.openResolved(mountpoint)
        }
        // Another mount covers a parent directory.
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

    /// As root, the open root identifies the mount, so that renames of a parent directory no longer matter. `fusermount3`
    /// only accepts a path.
    private static func detach(_ root: borrowing OwnedDescriptor, at place: [UInt8]) throws(Errno) {
        if geteuid() != 0 {
            if let error = MountRemoval.unmount(place, lazily: true) { throw error }
        } else if clinux_detach(root.rawValue) != 0 {
            throw .last
        }
    }
}

extension MountTable {
    /// Returns all mounts in a mount, directly or indirectly.
    package func mounts(in id: Int) -> [MountEntry] {
        var (found, inside): ([MountEntry], Set<Int>) = ([], [id])
        // A mount may precede its parent in the table.
        while true {
            let more = entries.filter { inside.contains($0.parent) && !inside.contains($0.id) }
            if more.isEmpty { return found }
            found += more
            inside.formUnion(more.map(\.id))
        }
    }
}
