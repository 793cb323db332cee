// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import Glibc
import LinuxSystem

/// Notes changes that are made through the mount, so that the watcher of the source does not report them as out-of-band
/// changes.
final class SourceWatch: Sendable {
    /// The watcher of the source. Nil for an in-place mount, because no path leads to the files below such a mount.
    let watcher: SourceWatcher?
    private let engine: Engine

    init(_ watcher: SourceWatcher?, _ engine: Engine) {
        self.watcher = watcher
        self.engine = engine
    }

    /// Notes that a program is about to add or remove a name through the mount.
    func noteOwn(_ name: NameBytes, in directory: Node) {
        guard let watcher, watcher.watch != nil else { return }
        watcher.own.note(EntryName(name, in: directory), at: Engine.now)
    }

    /// Notes that a program is about to change a file through the mount. Returns a number for the change.
    @discardableResult
    func noteOwn(_ node: Node, _ matter: OwnChanges.ChangeKind) -> UInt64? {
        guard let watcher, watcher.watch != nil else { return nil }
        return watcher.own.note(node.id, matter, at: Engine.now)
    }

    /// Called after a program has changed a file's contents through the mount. Notes the file's stamp: if the file
    /// later has another stamp, another program has changed the file.
    ///
    /// Does nothing while no client of the control socket receives events.
    func finishOwnChange(_ node: Node, _ change: UInt64?) {
        guard let change, let own = watcher?.own, engine.hasAwareClients, node.kind == S_IFREG else {
            return
        }
        do throws(Errno) {
            own.finish(node.id, change: change, leaving: Stamp(try node.descriptor().descriptor.status()))
        } catch {
            // The stamp cannot be read. So for a while, every change of the file counts as a change through the mount.
            return
        }
    }

    /// Returns whether a node was renamed out of band, or a directory above the node was.
    ///
    /// This takes a system call for the node and one for each directory above it. For an in-place mount it takes none,
    /// and the answer is no.
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
            // Only ENOENT shows that the name no longer leads to the node. After another error, the name may still lead
            // to the node.
            return error != .noEntry
        }
    }
}
