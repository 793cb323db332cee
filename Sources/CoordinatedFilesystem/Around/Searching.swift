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
    func findAgain(_ node: Node, from touch: SeenChanges.Touch) -> Bool {
        guard !node.isElsewhere else { return false }
        do throws(Errno) {
            let opened = try node.descriptor()
            let status = try opened.descriptor.status()
            guard hasKeptItsName(node, status), let names = try names(of: opened.descriptor),
                try follow(node, to: names)
            else { return false }
            // What was done to it there, nobody saw either.
            if node.kind == S_IFREG, hasChanged(node, status) {
                noteChange(of: node, .write(.updating)) { .uncoordinated }
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
    private func hasKeptItsName(_ node: Node, _ status: FileStatus) -> Bool {
        if status.isDirectory { return status.linkCount > 0 }
        guard status.linkCount == 1, let known = documents.look(of: node.item) else { return false }
        return known.file == node.key && known.linkCount == 1
    }

    /// Tells that something has moved to where the names lead, and so may have the directories on the way. Returns whether it
    /// is there.
    private func follow(_ node: Node, to names: [NameBytes]) throws(Errno) -> Bool {
        guard let name = names.last else { return false }
        var walked: [Node] = []
        defer { for node in walked { nodes.forget(node.id, lookups: 1) } }
        let directory = try reach(Array(names.dropLast()), holding: &walked)
        guard FileKey(try directory.statusAtHand(of: name)) == node.key else { return false }
        var (above, isKnown) = (nodes.root, false)
        for (index, found) in (walked + [node]).enumerated() {
            let place = SeenChanges.Touch(directory: above, name: names[index], what: [])
            isKnown = tellOfMove(of: found, to: place) != nil || found.isCalled(names[index], in: above)
            above = found
        }
        return isKnown
    }

    /// Tells of something that is under a name and has come from another. Returns which that was.
    func tellOfMove(of node: Node, to touch: SeenChanges.Touch) -> NameChange? {
        guard let origin = formerName(of: node, now: touch) else { return nil }
        let change = NameChange(around: touch.name, in: touch.directory)
        rename(node, to: change)
        noteMove(of: node, from: origin, to: change)
        _ = fillAwaited(touch.name, in: touch.directory, with: node) { .uncoordinated }
        return origin
    }

    /// Whether what was under a name has moved, and a lookup was the first to find it. Those who follow it are told.
    func wasFound(by formerNames: [Documents.Name: NodeID], from touch: SeenChanges.Touch) -> Bool {
        guard let id = formerNames[touch.key], let node = nodes[id] else { return false }
        let (name, parent, hasName) = node.state.withLock { ($0.name, $0.parent, $0.hasName) }
        guard hasName, let parent, !parent.isElsewhere else { return false }
        let now = SeenChanges.Touch(directory: parent, name: name, what: [])
        guard let status = status(of: now), FileKey(status) == node.key else { return false }
        return tellOfMove(of: node, to: now) != nil
    }

    /// Holds the directories of what was touched by a lookup each, so that they go on being known and watched if something
    /// in them is followed. Those that nobody has known until now are looked up for that.
    func hold(
        directoriesOf touches: [SeenChanges.Touch], _ held: inout [Node]
    ) -> [SeenChanges.Touch] {
        var known: [NodeID: Node] = [:]
        var touches = touches
        for index in touches.indices {
            let directory = touches[index].directory
            let kept = known[directory.id] ?? hold(directory, &held)
            known[directory.id] = kept
            touches[index].directory = kept
        }
        return touches
    }

    private func hold(_ directory: Node, _ held: inout [Node]) -> Node {
        if nodes.retain(directory) {
            held.append(directory)
            return directory
        }
        guard !directory.isElsewhere else { return directory }
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
