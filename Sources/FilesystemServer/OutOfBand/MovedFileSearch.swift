// SPDX-License-Identifier: Apache-2.0
import Coordination
import FuseBridge
import Glibc
import LinuxSystem

/// Finds files and directories that other programs have moved to a directory that is not watched.
extension OutOfBandMonitor {
    /// Searches for a file or directory that has lost a name, and reports its new name.
    ///
    /// The report goes to the followers of the file, or of the directory and the files in it. Returns whether the file
    /// or directory has a new name in the source.
    func findAgain(_ node: Node, from dirtyName: OutOfBandChanges.DirtyName) -> Bool {
        guard !node.isOnSubmount else { return false }
        do throws(Errno) {
            let opened = try node.descriptor()
            let status = try opened.descriptor.status()
            guard hasSingleKnownName(node, status), let names = try tree.names(of: opened.descriptor),
                try follow(node, to: names)
            else { return false }
            // The new directory was not watched, so no event has reported changes of the file's contents in that
            // directory.
            if node.kind == S_IFREG, hasChanged(node, status) {
                events.noteChange(of: node, .write(.updating)) { .outOfBand }
            }
            return true
        } catch {
            // No name leads to the file any more.
            return false
        }
    }

    /// Returns whether a file had a single name before the change, and has a single name now.
    ///
    /// The daemon uses only one name of a file with several hard links. When this name is removed, the document counts
    /// as deleted, although the other links still exist (D20).
    private func hasSingleKnownName(_ node: Node, _ status: FileStatus) -> Bool {
        if status.isDirectory { return status.linkCount > 0 }
        guard status.linkCount == 1, let known = documents.snapshot(of: node.item) else { return false }
        return known.file == node.key && known.linkCount == 1
    }

    /// Reports that a node has moved to a path. If directories on this path have moved as well, they are also reported.
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
        _ = identity.fillFound(dirtyName.name, in: dirtyName.directory, with: node) { .outOfBand }
        return origin
    }

    /// Reports the move of the node that formerly had a name, if a lookup has already found the node under a new name.
    /// Returns whether a move was reported.
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

    /// Counts one more lookup of the directory of each name, so that the daemon does not forget the directory while the
    /// names are reported.
    ///
    /// Directories that the kernel has already forgotten are looked up again.
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
