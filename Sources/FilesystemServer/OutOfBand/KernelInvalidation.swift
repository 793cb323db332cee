// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization

/// Invalidates the kernel's caches after out-of-band changes. Called on the watching thread only, since the kernel may make
/// it wait for a request.
///
/// Never reads files of a submount (``Node/isOnSubmount``): while this thread waits, no client is told of changes.
extension OutOfBandMonitor {
    /// Invalidates the kernel's caches after a change, and records it for the report after a quiet period. `isNamed` means
    /// that changes of this process were left out.
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
            // A node that already has this name was looked up after the change.
            if node?.isCalled(dirtyName.name, in: dirtyName.directory) != true {
                dirtyName.name.withName { connection.invalidateEntry($0, in: dirtyName.directory.id) }
            }
            connection.invalidateAttributes(of: dirtyName.directory.id)
            seen.add(dirtyName)
        } else if dirtyName.changesName, engine.hasAwareClients {
            // Another program may have done the same since: compare the final state later.
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

    /// Whether another program changed a file, according to its stamp and the mount's own changes.
    func isExternalChange(_ mask: ChangeWatch.ChangeMask, in node: Node) -> Bool {
        guard let own = sourceWatcher?.own else { return false }
        // Read before the status, so that changes that are under way now can explain it.
        let known = own.changes(of: node.id)
        do throws(Errno) {
            let status = try node.descriptor().descriptor.status()
            let isAboutContents = !mask.isDisjoint(with: [.written, .closed])
            let isExplained = known.explain(isAboutContents ? Stamp(status) : nil, at: Engine.now)
            guard mask.isChange(of: status), !isExplained else { return false }
            // The change may have been made by a writer that has opened the file since.
            return handles.writers(on: node).isEmpty && own.changes(of: node.id).latest == known.latest
        } catch {
            // The change of its name will be reported instead.
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

    /// Invalidates all caches, after changes were lost.
    ///
    /// The kernel trusts names and attributes for only a second (D76). It drops a file's contents when the file is opened.
    func invalidateAll() {
        connection.invalidateAttributes(of: .root)
        for node in nodes.all where !node.isOnSubmount && node.isOpen {
            connection.invalidateContents(of: node.id)
        }
    }

    /// The status of the file under a name; nil if there is none or it cannot be read.
    func status(of dirtyName: OutOfBandChanges.DirtyName) -> FileStatus? {
        do throws(Errno) { return try dirtyName.directory.cachedStatus(of: dirtyName.name) } catch {
            return nil
        }
    }

    /// The directory that a handle leads to, if it is relevant: the kernel knows it, or a client may follow a directory above.
    func directory(of handle: PersistentFileHandle, hasAwareClients: Bool) -> Node? {
        do throws(Errno) {
            let opened = try nodes.root.budget.path(of: handle)
            let key = FileKey(try opened.status())
            if let known = nodes[key] { return known }
            guard hasAwareClients, let names = try tree.names(of: opened) else { return nil }
            var walked: [Node] = []
            // No other code retains the nodes that are found: they stay as long as they are used.
            defer { for node in walked { nodes.forget(node.id, lookups: 1) } }
            let found = try reach(names, holding: &walked)
            return found.key == key ? found : nil
        } catch {
            // The directory was removed, and so was all that was in it.
            return nil
        }
    }

    /// Walks down to a directory, and counts a lookup for each node. The caller forgets these, also after an error.
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
    /// No change is known, but the name is worth a check.
    var isDoubtful: Bool { mask.isEmpty }
    var doubtful: Self { Self(directory: directory, name: name, mask: []) }
    /// Whether this is the daemon's own directory.
    fileprivate var isPrivate: Bool { directory.isRoot && name.bytes == Array(".truce".utf8) }
}

extension ChangeWatch.ChangeMask {
    /// How recently, in nanoseconds, a file must have changed for its close to count as a change.
    private static let lately: Int64 = 5_000_000_000

    /// Whether the event is a change. A program that closes a writable file need not have written to it.
    fileprivate func isChange(of status: FileStatus) -> Bool {
        guard isDisjoint(with: [.written, .attributes]) else { return true }
        let changed = status.changed.seconds &* 1_000_000_000 &+ Int64(status.changed.nanoseconds)
        return WallClock.nanoseconds() &- changed < Self.lately
    }
}
