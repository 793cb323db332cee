// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization

/// What was changed around the mount is not what the kernel knows. Called on the watching thread only: the kernel may make
/// it wait for a request.
///
/// Nothing is looked at that lies on another file system below (``Node/isElsewhere``): what keeps this thread keeps
/// everybody from being told.
extension CoordinatedFilesystem {
    /// Tells the kernel of a change, and notes it for those who are told when it is quiet. `isNamed` says that changes of
    /// this process were left out.
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
            // What is known by this name already was looked up since.
            if node?.isCalled(dirtyName.name, in: dirtyName.directory) != true {
                dirtyName.name.withName { connection.invalidateEntry($0, in: dirtyName.directory.id) }
            }
            connection.invalidateAttributes(of: dirtyName.directory.id)
            seen.add(dirtyName)
        } else if dirtyName.changesName, engine.hasAwareClients {
            // Somebody else may have done the same since; what is there in the end, tells.
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

    /// Whether somebody else has changed a file, as far as its looks and what the mount did to it tell.
    func isExternalChange(_ mask: ChangeWatch.ChangeMask, in node: Node) -> Bool {
        guard let own = sourceWatcher?.own else { return false }
        // Before the look: what is under way now explains whatever that shows.
        let known = own.changes(of: node.id)
        do throws(Errno) {
            let status = try node.descriptor().descriptor.status()
            let isAboutContents = !mask.isDisjoint(with: [.written, .closed])
            let isExplained = known.explain(isAboutContents ? Stamp(status) : nil, at: Engine.now)
            guard mask.isChange(of: status), !isExplained else { return false }
            // What was seen may be the work of a writer who has come since.
            return handles.writers(on: node).isEmpty && own.changes(of: node.id).latest == known.latest
        } catch {
            // Then its name has something to tell.
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

    /// Whatever the kernel knows may be wrong.
    ///
    /// Names and attributes it believes for a second only (D76), and what it has of a file it drops when that is opened.
    func invalidateAll() {
        connection.invalidateAttributes(of: .root)
        for node in nodes.all where !node.isOnSubmount && node.state.withLock({ $0.opens > 0 }) {
            connection.invalidateContents(of: node.id)
        }
    }

    /// What is under a name now; nil if nothing is, or nothing that can be looked at.
    func status(of dirtyName: OutOfBandChanges.DirtyName) -> FileStatus? {
        do throws(Errno) { return try dirtyName.directory.cachedStatus(of: dirtyName.name) } catch {
            return nil
        }
    }

    /// The directory that a handle leads to, if it concerns anybody: the kernel knows it, or somebody may show what is
    /// above.
    func directory(of handle: PersistentFileHandle, hasAwareClients: Bool) -> Node? {
        do throws(Errno) {
            let opened = try nodes.root.budget.path(of: handle)
            let key = FileKey(try opened.status())
            if let known = nodes[key] { return known }
            guard hasAwareClients, let names = try names(of: opened) else { return nil }
            var walked: [Node] = []
            // Nobody holds what is found: it stays for as long as somebody needs it.
            defer { for node in walked { nodes.forget(node.id, lookups: 1) } }
            let found = try reach(names, holding: &walked)
            return found.key == key ? found : nil
        } catch {
            // It is gone, and so is all that was in it.
            return nil
        }
    }

    /// Walks down to a directory, and counts a lookup of each on the way; the caller forgets them, also if it is not reached.
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
    /// Nothing is known to have happened, but it is worth a look.
    var isDoubtful: Bool { mask.isEmpty }
    var doubtful: Self { Self(directory: directory, name: name, mask: []) }
    /// The daemon's own directory.
    fileprivate var isPrivate: Bool { directory.isRoot && name.bytes == Array(".truce".utf8) }
}

extension ChangeWatch.ChangeMask {
    /// How long ago a file may have changed last that was closed just now.
    private static let lately: Int64 = 5_000_000_000

    /// Whoever could write to a file and closes it need not have written.
    fileprivate func isChange(of status: FileStatus) -> Bool {
        guard isDisjoint(with: [.written, .attributes]) else { return true }
        let changed = status.changed.seconds &* 1_000_000_000 &+ Int64(status.changed.nanoseconds)
        return WallClock.nanoseconds() &- changed < Self.lately
    }
}
