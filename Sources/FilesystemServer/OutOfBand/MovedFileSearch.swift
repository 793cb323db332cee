// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization

/// Files and directories that have gone from their names to where nobody saw them arrive: into a directory that is not watched,
/// because nobody has looked it up yet.
extension CoordinatedFilesystem {
    /// Looks for what was under a name. Returns whether it is in the source still: whoever follows it, or something in it, has
    /// been told where then.
    func findAgain(_ node: Node, from dirtyName: OutOfBandChanges.DirtyName) -> Bool {
        guard !node.isOnSubmount else { return false }
        do throws(Errno) {
            let opened = try node.descriptor()
            let status = try opened.descriptor.status()
            guard hasSingleKnownName(node, status), let names = try names(of: opened.descriptor),
                try follow(node, to: names)
            else { return false }
            // What was done to it there, nobody saw either.
            if node.kind == S_IFREG, hasChanged(node, status) {
                noteChange(of: node, .write(.updating)) { .outOfBand }
            }
            return true
        } catch {
            // Nothing leads to it any more.
            return false
        }
    }

    /// Whether the only name of a file can be none but the one it was known by, which has moved.
    ///
    /// Of several links it is known by one: when that is taken away the document is gone, and goes to none that was there all
    /// along (D20).
    private func hasSingleKnownName(_ node: Node, _ status: FileStatus) -> Bool {
        if status.isDirectory { return status.linkCount > 0 }
        guard status.linkCount == 1, let known = documents.snapshot(of: node.item) else { return false }
        return known.file == node.key && known.linkCount == 1
    }

    /// Tells that something has moved to where the names lead, and so may have the directories on the way. Returns whether it
    /// is there.
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

    /// Tells of something that is under a name and has come from another. Returns which that was.
    func tellOfMove(of node: Node, to dirtyName: OutOfBandChanges.DirtyName) -> NameChange? {
        guard let origin = formerName(of: node, now: dirtyName) else { return nil }
        let change = NameChange(outOfBand: dirtyName.name, in: dirtyName.directory)
        rename(node, to: change)
        noteMove(of: node, from: origin, to: change)
        _ = fillAwaited(dirtyName.name, in: dirtyName.directory, with: node) { .outOfBand }
        return origin
    }

    /// Whether what was under a name has moved, and a lookup was the first to find it. Those who follow it are told.
    func reportMoveFoundByLookup(
        by formerNames: [DocumentTable.EntryName: NodeID], from dirtyName: OutOfBandChanges.DirtyName
    ) -> Bool {
        guard let id = formerNames[dirtyName.key], let node = nodes[id] else { return false }
        let (name, parent, hasName) = node.state.withLock { ($0.name, $0.parent, $0.hasName) }
        guard hasName, let parent, !parent.isOnSubmount else { return false }
        let now = OutOfBandChanges.DirtyName(directory: parent, name: name, mask: [])
        guard let status = status(of: now), FileKey(status) == node.key else { return false }
        return tellOfMove(of: node, to: now) != nil
    }

    /// Holds the directories of what was touched by a lookup each, so that they go on being known and watched if something
    /// in them is followed. Those that nobody has known until now are looked up for that.
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
            guard let names = try names(of: opened.descriptor) else { return directory }
            let found = try reach(names, holding: &held)
            return found.id == directory.id ? found : directory
        } catch {
            // It is gone, and so is what was in it.
            return directory
        }
    }
}
