// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization

/// Makes the kernel drop cached names, attributes and contents after out-of-band changes.
///
/// An invalidation may have to wait until the daemon answers a request. So only the thread that watches the source, which
/// answers no requests, calls these functions.
///
/// These functions never read a file on a submount (``Node/isOnSubmount``). Such a file might not answer, and the
/// waiting thread would report no further changes.
extension OutOfBandMonitor {
    /// Invalidates the kernel's caches after a change, and adds the change to `seen` for the later report.
    ///
    /// `isNamed`: whether the kernel's events say which process made each change. If so, the daemon's own changes were
    /// already left out.
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
            // If the node of this file already has this name, a lookup has found the name after the change. The
            // kernel's cached entry is then correct.
            if node?.isCalled(dirtyName.name, in: dirtyName.directory) != true {
                dirtyName.name.withName { connection.invalidateEntry($0, in: dirtyName.directory.id) }
            }
            connection.invalidateAttributes(of: dirtyName.directory.id)
            seen.add(dirtyName)
        } else if dirtyName.changesName, engine.hasAwareClients {
            // The daemon itself changed this name, but another program may have changed the name after that. So the
            // report checks the name's final state.
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
        if !mask.isDisjoint(with: [.written, .closed]) { sightings.noteOutOfBandChange(of: node) }
        sourceWatcher?.changes.add(1, ordering: .relaxed)
        invalidate(node)
        seen.add(node, mask)
    }

    /// Returns whether another program changed a file around the mount. This is decided by the file's stamp and by the
    /// list of changes that the daemon made.
    func isExternalChange(_ mask: ChangeWatch.ChangeMask, in node: Node) -> Bool {
        guard let own = sourceWatcher?.own else { return false }
        // The daemon's own changes are read before the file's status. If the daemon changes the file between the two
        // reads, the last check in this function detects it.
        let known = own.changes(of: node.id)
        do throws(Errno) {
            let status = try node.descriptor().descriptor.status()
            let isAboutContents = !mask.isDisjoint(with: [.written, .closed])
            let isExplained = known.explain(isAboutContents ? Stamp(status) : nil, at: Engine.now)
            guard mask.isChange(of: status), !isExplained else { return false }
            // A program of the mount may have made the change, if it has the file open to write or has changed it since the
            // first read.
            return handles.writers(on: node).isEmpty && own.changes(of: node.id).latest == known.latest
        } catch {
            // The file is gone. The removal of the file's name is reported by another event.
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
    /// Cached contents are invalidated for open files only: the kernel drops the contents of other files when they are
    /// opened. Cached names and attributes become invalid by themselves after a second (D76).
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

    /// Returns the directory that a file handle identifies. Returns nil if the kernel does not know the directory,
    /// unless there are clients of the control socket that may follow it.
    func directory(of handle: PersistentFileHandle, hasAwareClients: Bool) -> Node? {
        do throws(Errno) {
            let opened = try nodes.root.budget.path(of: handle)
            let key = FileKey(try opened.status())
            if let known = nodes[key] { return known }
            guard hasAwareClients, let names = try tree.names(of: opened) else { return nil }
            var walked: [Node] = []
            // The walk has counted a lookup of each node, and these lookups are taken back here. A node stays in the
            // table only if other code now uses it.
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
    /// Whether no event shows a change of the name. The report nevertheless checks the name.
    var isDoubtful: Bool { mask.isEmpty }
    var doubtful: Self { Self(directory: directory, name: name, mask: []) }
    /// Whether this is the name of the store, the daemon's own directory.
    fileprivate var isPrivate: Bool { directory.isRoot && name.bytes == Array(".truce".utf8) }
}

extension ChangeWatch.ChangeMask {
    /// How recently, in nanoseconds, a file must have changed so that the event of its close counts as a change.
    private static let lately: Int64 = 5_000_000_000

    /// Returns whether an event shows a change. An event for the close of a file that was open to write may show no
    /// change, because the program may have written nothing.
    fileprivate func isChange(of status: FileStatus) -> Bool {
        guard isDisjoint(with: [.written, .attributes]) else { return true }
        let changed = status.changed.seconds &* 1_000_000_000 &+ Int64(status.changed.nanoseconds)
        return WallClock.nanoseconds() &- changed < Self.lately
    }
}
