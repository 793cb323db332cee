// SPDX-License-Identifier: Apache-2.0
import Coordination
import FuseBridge
import Glibc
import LinuxSystem

/// Reports files that have exchanged names out of band, as in a rotation of logs or by `RENAME_EXCHANGE`.
///
/// If the files were reported one after the other, each file would seem to replace the other document. The two
/// documents would then become a single document for good. So both documents are first separated from their files. Then
/// each document takes the file that now has the document's name.
extension OutOfBandMonitor {
    typealias DirtyNameStatus = (dirtyName: OutOfBandChanges.DirtyName, status: FileStatus)

    /// Reports the documents that have exchanged their files. Returns the other changes, which are no exchanges.
    func tellOfExchanges(_ found: [DirtyNameStatus], _ names: TrackedNames) -> [DirtyNameStatus] {
        let exchanged = namesOfExchanged(found, names)
        guard !exchanged.isEmpty else { return found }
        // The nodes are held until the end of this function. If the daemon forgot a node in between, the node would get
        // its former document back.
        let taken = found.filter { exchanged.contains($0.dirtyName.key) }.map { dirtyName, status in
            (dirtyName, nodes.introduce(status, as: dirtyName.name, in: dirtyName.directory, isLocked: false))
        }
        defer { for (_, node) in taken { nodes.forget(node.id, lookups: 1) } }
        for (dirtyName, _) in taken {
            if let former = names.document(at: dirtyName.key) {
                identity.part(former, from: dirtyName.name, in: dirtyName.directory)
            }
        }
        for (dirtyName, node) in taken {
            identity.rename(node, to: NameChange(outOfBand: dirtyName.name, in: dirtyName.directory))
            _ = identity.fillFound(dirtyName.name, in: dirtyName.directory, with: node) { .outOfBand }
            events.noteChange(of: node, .write(.updating)) { .outOfBand }
        }
        return found.filter { !exchanged.contains($0.dirtyName.key) }
    }

    private func namesOfExchanged(_ found: [DirtyNameStatus], _ names: TrackedNames) -> Set<
        EntryName
    > {
        var replaced: [NodeID: EntryName] = [:]
        var takers: [(name: EntryName, file: NodeID)] = []
        for (dirtyName, status) in found {
            guard let former = names.document(at: dirtyName.key), former.kind == S_IFREG,
                status.isRegularFile,
                FileKey(status) != former.key
            else { continue }
            replaced[former.id] = dirtyName.key
            if let taken = nodes[FileKey(status)] { takers.append((dirtyName.key, taken.id)) }
        }
        return takers.reduce(into: []) { exchanged, taker in
            if let other = replaced[taker.file] { exchanged.formUnion([taker.name, other]) }
        }
    }
}
