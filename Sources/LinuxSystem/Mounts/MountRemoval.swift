// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// Taking a mount away: by the system call as root, by `fusermount3` as anybody else.
package enum MountRemoval {
    private static let programs = ["/usr/bin/fusermount3", "/bin/fusermount3", "/usr/local/bin/fusermount3"]

    /// Returns what went wrong, if anything did.
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
    /// How often a mount is looked for once more that was elsewhere by the time it was to go.
    private static let mostMoves = 16

    /// Takes this very mount away by root if nothing uses it, wherever it is by now: what is at its former place may be
    /// another user's.
    ///
    /// An open root would be such a use. So the directory above is opened, and it is looked which mount is under the name
    /// there. From then on the name stays: of what something is mounted at, the kernel renames and removes nothing in this
    /// mount namespace. `beforeUnmount` is called in between, for tests.
    ///
    /// Throws EBUSY if something uses it, and ESTALE if it is gone, or was moved again and again.
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

    /// A directory in which a mount is seen under a name; nil if it is not there any more.
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

    /// Takes this very mount away, lazily, wherever it is by now: what is at its former place may be somebody else's. Returns
    /// whether it was still there, in the caller's mount namespace. What is mounted in it goes with it, and is named before.
    ///
    /// Throws EBUSY if another mount hides it from whom may not look behind that one.
    package func detach(naming inside: ([MountEntry]) -> Void) throws(Errno) -> Bool {
        var isNamed = false
        for _ in 1..<Self.mostMoves {
            do throws(Errno) {
                return try detachHere { others in
                    if !isNamed { inside(others) }
                    isNamed = true
                }
            } catch {
                // Its path may have led elsewhere, because a directory above was renamed between two looks.
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
        // Those on its root hide it, and would go with it: they go first.
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

    /// Numbers of mounts and devices are handed out again.
    private func isSame(as other: MountEntry) -> Bool {
        device == other.device && type == other.type && source == other.source
    }

    /// The root of what is mounted last where this one is: itself, or one of those in it.
    private func openTop(in table: MountTable, with others: [MountEntry]) throws(Errno) -> OwnedDescriptor {
        let top = table.top(at: mountpoint)?.id
        if top == id || others.contains(where: { $0.id == top }) {
            return try OwnedDescriptor.openResolved(mountpoint)
        }
        // Another mount covers a directory above.
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

    /// The root was opened once: whatever is renamed above it from here on, it is this mount that goes.
    /// `fusermount3` has only a path.
    private static func detach(_ root: borrowing OwnedDescriptor, at place: [UInt8]) throws(Errno) {
        if geteuid() != 0 {
            if let error = MountRemoval.unmount(place, lazily: true) { throw error }
        } else if clinux_detach(root.rawValue) != 0 {
            throw .last
        }
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
