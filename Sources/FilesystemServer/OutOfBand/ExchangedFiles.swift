// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem

/// Files that have changed places around the mount, as in a rotation of logs or by `RENAME_EXCHANGE`.
///
/// Taken one after the other, each would be a file renamed over a document, which makes the two one document for good.
/// So those documents first leave their files together, and then each takes the one that is under its name now.
extension CoordinatedFilesystem {
    typealias DirtyNameStatus = (dirtyName: OutOfBandChanges.DirtyName, status: FileStatus)

    /// Tells of documents whose names have the files of others of them now. Returns what is left to tell.
    func tellOfExchanges(_ found: [DirtyNameStatus], _ names: TrackedNames) -> [DirtyNameStatus] {
        let exchanged = namesOfExchanged(found, names)
        guard !exchanged.isEmpty else { return found }
        // Held until the end: one that was forgotten in between would be the document again that it has left.
        let taken = found.filter { exchanged.contains($0.dirtyName.key) }.map { dirtyName, status in
            (dirtyName, nodes.introduce(status, as: dirtyName.name, in: dirtyName.directory, isLocked: false))
        }
        defer { for (_, node) in taken { nodes.forget(node.id, lookups: 1) } }
        for (dirtyName, _) in taken {
            if let former = names.document(at: dirtyName.key) {
                part(former, from: dirtyName.name, in: dirtyName.directory)
            }
        }
        for (dirtyName, node) in taken {
            rename(node, to: NameChange(outOfBand: dirtyName.name, in: dirtyName.directory))
            _ = fillAwaited(dirtyName.name, in: dirtyName.directory, with: node) { .outOfBand }
            noteChange(of: node, .write(.updating)) { .outOfBand }
        }
        return found.filter { !exchanged.contains($0.dirtyName.key) }
    }

    private func namesOfExchanged(_ found: [DirtyNameStatus], _ names: TrackedNames) -> Set<
        DocumentTable.EntryName
    > {
        var replaced: [NodeID: DocumentTable.EntryName] = [:]
        var takers: [(name: DocumentTable.EntryName, file: NodeID)] = []
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

    /// A document waits for another file under its name.
    func part(_ file: Node, from name: NameBytes, in directory: Node) {
        let document = file.item
        removeName(file, name, in: directory, wasLast: false)
        documents.vacate(document, awaiting: name, in: directory)
        let orphan = makeItem()
        engine.vacate(document, orphan: orphan)
        nodes.renumber(file, as: orphan)
    }
}
