// SPDX-License-Identifier: Apache-2.0
import Coordination
import FuseBridge
import Glibc
import LinuxSystem

/// Searches files and directories that other programs have moved to an unwatched directory, before a lookup finds them.
extension OutOfBandMonitor {
    /// Searches the file or directory that had a name, and reports its new name to its followers and to those of files in
    /// it.
    ///
    /// Returns whether it is still in the source under a new name.
    func findAgain(_ node: Node, from dirtyName: OutOfBandChanges.DirtyName) -> Bool {
        guard !node.isOnSubmount else { return false }
        do throws(Errno) {
            let opened = try node.descriptor()
            let status = try opened.descriptor.status()
            guard hasSingleKnownName(node, status), let names = try tree.names(of: opened.descriptor),
                try follow(node, to: names)
            else { return false }
            // The new directory was not watched, so changes of the file's contents there were not reported either.
            if node.kind == S_IFREG, hasChanged(node, status) {
                events.noteChange(of: node, .write(.updating)) { .outOfBand }
            }
            return true
        } catch {
            // No name leads to the file any more.
            return false
        }
    }

    /// Returns whether a file has a single name, now as before.
    ///
    /// The daemon knows a file with several links by one name. When this name is removed, the document counts as deleted.
    /// It does not move to a link that already existed (D20).
    private func hasSingleKnownName(_ node: Node, _ status: FileStatus) -> Bool {
        if status.isDirectory { return status.linkCount > 0 }
        guard status.linkCount == 1, let known = documents.snapshot(of: node.item) else { return false }
        return known.file == node.key && known.linkCount == 1
    }

    /// Reports that a node has moved to a path. The directories above it may have moved too; they are also reported.
    /// Returns whether the node now has that path.
    private func follow(_ node: Node, to names: [NameBytes]) throws(Errno) -> Bool {
        guard let name = names.last else { return false }
        var walked: [Node] = []
        defer { for node in walked { nodes.forget(node.id, lookups: 1) } }
        let directory = try reach(Array(names.dropLast()), holding: &walked)
        guard FileKey(try directory.cachedStatus(of: name)) == node.key else { return false }
        var (above, isKnown) = (nodes.root, false)
        for (index, found) in (walked + [node]).enumerated() {
            let place = OutOfBandChanges.DirtyName(directory: above, name: names[index], mask: [])
            isKnown = tellOfMove(of: found, to: place) != nil || found.isCalled(names[index], in: above)
            above = found
        }
        return isKnown
    }

    /// Reports that a node has moved to a name, if it has. Returns its former name, or nil if the node has not moved.
    func tellOfMove(of node: Node, to dirtyName: OutOfBandChanges.DirtyName) -> NameChange? {
        guard let origin = formerName(of: node, now: dirtyName) else { return nil }
        let change = NameChange(outOfBand: dirtyName.name, in: dirtyName.directory)
        identity.rename(node, to: change)
        events.noteMove(of: node, from: origin, to: change)
        _ = identity.fillAwaited(dirtyName.name, in: dirtyName.directory, with: node) { .outOfBand }
        return origin
    }

    /// Reports the move of the node that had a name, if a lookup has already found the node elsewhere. Returns whether a
    /// move was reported.
    func reportMoveFoundByLookup(
        by formerNames: [EntryName: NodeID], from dirtyName: OutOfBandChanges.DirtyName
    ) -> Bool {
        guard let id = formerNames[dirtyName.key], let node = nodes[id] else { return false }
        let (name, parent, hasName) = node.location
        guard hasName, let parent, !parent.isOnSubmount else { return false }
        let now = OutOfBandChanges.DirtyName(directory: parent, name: name, mask: [])
        guard let status = status(of: now), FileKey(status) == node.key else { return false }
        return tellOfMove(of: node, to: now) != nil
    }

    /// Retains the directory of each name by one more lookup. So a directory stays known and watched if a client follows
    /// a document in it.
    ///
    /// Directories that the kernel has forgotten are looked up again.
    func retain(
        directoriesOf dirtyNames: [OutOfBandChanges.DirtyName], _ held: inout [Node]
    ) -> [OutOfBandChanges.DirtyName] {
        var known: [NodeID: Node] = [:]
        var dirtyNames = dirtyNames
        for index in dirtyNames.indices {
            let directory = dirtyNames[index].directory
            let kept = known[directory.id] ?? retain(directory, &held)
            known[directory.id] = kept
            dirtyNames[index].directory = kept
        }
        return dirtyNames
    }

    private func retain(_ directory: Node, _ held: inout [Node]) -> Node {
        if nodes.retain(directory) {
            held.append(directory)
            return directory
        }
        guard !directory.isOnSubmount else { return directory }
        do throws(Errno) {
            let opened = try directory.descriptor()
            guard let names = try tree.names(of: opened.descriptor) else { return directory }
            let found = try reach(names, holding: &held)
            return found.id == directory.id ? found : directory
        } catch {
            // The directory was removed, with all that was in it.
            return directory
        }
    }
}
