// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import Glibc
import LinuxSystem

/// Notes the mount's own changes for the watcher of the source, so that they are not reported as out-of-band changes.
final class SourceWatch: Sendable {
    /// The watcher. It is nil for an in-place mount, because no path leads around such a mount to the files.
    let watcher: SourceWatcher?
    private let engine: Engine

    init(_ watcher: SourceWatcher?, _ engine: Engine) {
        self.watcher = watcher
        self.engine = engine
    }

    /// Notes that a program of the mount is about to add or remove a name.
    func noteOwn(_ name: NameBytes, in directory: Node) {
        guard let watcher, watcher.watch != nil else { return }
        watcher.own.note(EntryName(name, in: directory), at: Engine.now)
    }

    /// Notes that a program of the mount is about to change a file. Returns the number of the change.
    @discardableResult
    func noteOwn(_ node: Node, _ matter: OwnChanges.ChangeKind) -> UInt64? {
        guard let watcher, watcher.watch != nil else { return nil }
        return watcher.own.note(node.id, matter, at: Engine.now)
    }

    /// Notes a file's stamp after a program of the mount has changed its contents. If the stamp is different later,
    /// another program has changed the file.
    ///
    /// Does nothing while no client of the control socket receives events.
    func finishOwnChange(_ node: Node, _ change: UInt64?) {
        guard let change, let own = watcher?.own, engine.hasAwareClients, node.kind == S_IFREG else {
            return
        }
        do throws(Errno) {
            own.finish(node.id, change: change, leaving: Stamp(try node.descriptor().descriptor.status()))
        } catch {
            // The stamp is unknown. Later changes of the file count as the mount's own for a while.
            return
        }
    }

    /// Returns whether a node, or a directory above it, has another name than the kernel knows.
    ///
    /// This costs a system call for the node and for each directory above it. It costs none for an in-place mount.
    func isRenamedOutOfBand(_ node: Node) -> Bool {
        guard watcher != nil else { return false }
        var next = node
        while true {
            let (name, parent, _) = next.location
            guard let parent else { return false }
            guard next.isFound(as: name, in: parent) else { return true }
            next = parent
        }
    }
}

extension Node {
    fileprivate func isFound(as name: NameBytes, in directory: Node) -> Bool {
        do throws(Errno) {
            let found = try name.withName { (name) throws(Errno) in
                try directory.descriptor().descriptor.status(of: name)
            }
            return FileKey(found) == key
        } catch {
            // If the status cannot be read, the name may still be the node's. Only ENOENT shows that the node has another
            // name.
            return error != .noEntry
        }
    }
}
