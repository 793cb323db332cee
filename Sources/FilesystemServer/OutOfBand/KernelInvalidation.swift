// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization

/// Makes the kernel drop cached names, attributes and contents after out-of-band changes.
///
/// Only the thread that watches the source calls these functions, because the kernel may let an invalidation wait for a
/// request. They never read files of a submount (``Node/isOnSubmount``): such a file may not answer, and while the thread
/// waits, no client is told of changes.
extension OutOfBandMonitor {
    /// Invalidates the kernel's caches after a change, and records the change for the report after a quiet period.
    ///
    /// `isNamed` means that the events name the process of each change, so that changes by the daemon itself are left out
    /// already.
    func recordChange(
        _ dirtyName: OutOfBandChanges.DirtyName, isNamed: Bool, besides writers: Set<NodeID>,
        _ seen: inout OutOfBandChanges
    ) {
        guard !dirtyName.name.bytes.isEmpty else {
            return recordChange(of: dirtyName.directory, dirtyName.mask, besides: writers, &seen)
        }
        guard !dirtyName.isPrivate, let own = sourceWatcher?.own else { return }
        let isOwn = own.has(dirtyName.key, within: OwnChanges.period, at: Engine.now)
        let status = self.status(of: dirtyName)
        let node = status.flatMap { nodes[FileKey($0)] }
        if dirtyName.changesName, isNamed || !isOwn {
            sourceWatcher?.changes.add(1, ordering: .relaxed)
            // If a node already has this name, a lookup found the name after the change. The kernel's entry is then
            // correct.
            if node?.isCalled(dirtyName.name, in: dirtyName.directory) != true {
                dirtyName.name.withName { connection.invalidateEntry($0, in: dirtyName.directory.id) }
            }
            connection.invalidateAttributes(of: dirtyName.directory.id)
            seen.add(dirtyName)
        } else if dirtyName.changesName, engine.hasAwareClients {
            // The mount itself changed this name, but another program may have changed it since. The report compares the
            // final state.
            seen.add(dirtyName.doubtful)
        }
        guard !dirtyName.mask.isDisjoint(with: [.written, .closed, .attributes]) else { return }
        if let node {
            recordChange(of: node, dirtyName.mask, besides: writers, &seen)
        } else if let status, !dirtyName.changesName, !isOwn, engine.hasAwareClients,
            dirtyName.mask.isChange(of: status)
        {
            sourceWatcher?.changes.add(1, ordering: .relaxed)
            seen.add(dirtyName)
        }
    }

    private func recordChange(
        of node: Node, _ mask: ChangeWatch.ChangeMask, besides writers: Set<NodeID>,
        _ seen: inout OutOfBandChanges
    ) {
        guard !node.isOnSubmount, !writers.contains(node.id), isExternalChange(mask, in: node) else { return }
        sourceWatcher?.changes.add(1, ordering: .relaxed)
        invalidate(node)
        seen.add(node, mask)
    }

    /// Returns whether another program changed a file around the mount. The file's stamp and the mount's own changes
    /// decide.
    func isExternalChange(_ mask: ChangeWatch.ChangeMask, in node: Node) -> Bool {
        guard let own = sourceWatcher?.own else { return false }
        // The mount's own changes are read before the status. So a change by the mount that is being made now is known as
        // its own.
        let known = own.changes(of: node.id)
        do throws(Errno) {
            let status = try node.descriptor().descriptor.status()
            let isAboutContents = !mask.isDisjoint(with: [.written, .closed])
            let isExplained = known.explain(isAboutContents ? Stamp(status) : nil, at: Engine.now)
            guard mask.isChange(of: status), !isExplained else { return false }
            // A program of the mount that has opened the file to write since then may have made the change.
            return handles.writers(on: node).isEmpty && own.changes(of: node.id).latest == known.latest
        } catch {
            // The file is gone. The removal of its name is reported instead.
            return false
        }
    }

    private func invalidate(_ node: Node) {
        if node.kind == S_IFREG {
            connection.invalidateContents(of: node.id)
        } else {
            connection.invalidateAttributes(of: node.id)
        }
    }

    /// Invalidates the kernel's caches of all files, because the kernel has dropped events.
    ///
    /// Cached contents are invalidated only for open files, because the kernel drops a file's contents when the file is
    /// opened. Cached names and attributes are valid for only a second (D76).
    func invalidateAll() {
        connection.invalidateAttributes(of: .root)
        for node in nodes.all where !node.isOnSubmount && node.isOpen {
            connection.invalidateContents(of: node.id)
        }
    }

    /// Returns the status of the file under a name. Returns nil if there is no file, or if its status cannot be read.
    func status(of dirtyName: OutOfBandChanges.DirtyName) -> FileStatus? {
        do throws(Errno) { return try dirtyName.directory.cachedStatus(of: dirtyName.name) } catch {
            return nil
        }
    }

    /// Returns the directory that a file handle identifies, if the kernel knows the directory or clients of the control
    /// socket may follow it. Otherwise returns nil.
    func directory(of handle: PersistentFileHandle, hasAwareClients: Bool) -> Node? {
        do throws(Errno) {
            let opened = try nodes.root.budget.path(of: handle)
            let key = FileKey(try opened.status())
            if let known = nodes[key] { return known }
            guard hasAwareClients, let names = try tree.names(of: opened) else { return nil }
            var walked: [Node] = []
            // The lookups that are counted here are taken back. A node stays known only if other code has begun to use
            // it.
            defer { for node in walked { nodes.forget(node.id, lookups: 1) } }
            let found = try reach(names, holding: &walked)
            return found.key == key ? found : nil
        } catch {
            // The directory was removed, with all that was in it.
            return nil
        }
    }

    /// Walks down from the root to a directory, and counts a lookup of each node on the path.
    ///
    /// The caller must forget the nodes in `walked`, also after an error.
    func reach(_ names: [NameBytes], holding walked: inout [Node]) throws(Errno) -> Node {
        var node = nodes.root
        for name in names {
            let status = try node.cachedStatus(of: name)
            guard status.isDirectory, !submounts.isOnSubmount(status.mount) else { throw .stale }
            node = nodes.introduce(status, as: name, in: node, isLocked: false)
            walked.append(node)
        }
        return node
    }
}

extension OutOfBandChanges.DirtyName {
    var changesName: Bool { !mask.isDisjoint(with: [.appeared, .vanished]) }
    /// Whether no event shows a change of the name. The report checks the name all the same.
    var isDoubtful: Bool { mask.isEmpty }
    var doubtful: Self { Self(directory: directory, name: name, mask: []) }
    /// Whether this is the name of the store, the daemon's own directory.
    fileprivate var isPrivate: Bool { directory.isRoot && name.bytes == Array(".truce".utf8) }
}

extension ChangeWatch.ChangeMask {
    /// How recently, in nanoseconds, a file must have changed so that the event of its close counts as a change.
    private static let lately: Int64 = 5_000_000_000

    /// Returns whether an event shows a change. The close of a file that was open to write may show none, because the
    /// program may not have written.
    fileprivate func isChange(of status: FileStatus) -> Bool {
        guard isDisjoint(with: [.written, .attributes]) else { return true }
        let changed = status.changed.seconds &* 1_000_000_000 &+ Int64(status.changed.nanoseconds)
        return WallClock.nanoseconds() &- changed < Self.lately
    }
}
