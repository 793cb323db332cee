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
    typealias Found = (touch: SeenChanges.Touch, status: FileStatus)

    /// Tells of documents whose names have the files of others of them now. Returns what is left to tell.
    func tellOfExchanges(_ found: [Found], _ names: FollowedNames) -> [Found] {
        let exchanged = namesOfExchanged(found, names)
        guard !exchanged.isEmpty else { return found }
        // Held until the end: one that was forgotten in between would be the document again that it has left.
        let taken = found.filter { exchanged.contains($0.touch.key) }.map { touch, status in
            (touch, nodes.introduce(status, as: touch.name, in: touch.directory, isLocked: false))
        }
        defer { for (_, node) in taken { nodes.forget(node.id, lookups: 1) } }
        for (touch, _) in taken {
            if let former = names.document(at: touch.key) {
                part(former, from: touch.name, in: touch.directory)
            }
        }
        for (touch, node) in taken {
            rename(node, to: NameChange(around: touch.name, in: touch.directory))
            _ = fillAwaited(touch.name, in: touch.directory, with: node) { .uncoordinated }
            noteChange(of: node, .write(.updating)) { .uncoordinated }
        }
        return found.filter { !exchanged.contains($0.touch.key) }
    }

    private func namesOfExchanged(_ found: [Found], _ names: FollowedNames) -> Set<Documents.Name> {
        var replaced: [NodeID: Documents.Name] = [:]
        var takers: [(name: Documents.Name, file: NodeID)] = []
        for (touch, status) in found {
            guard let former = names.document(at: touch.key), former.kind == S_IFREG, status.isRegularFile,
                FileKey(status) != former.key
            else { continue }
            replaced[former.id] = touch.key
            if let taken = nodes[FileKey(status)] { takers.append((touch.key, taken.id)) }
        }
        return takers.reduce(into: []) { exchanged, taker in
            if let other = replaced[taker.file] { exchanged.formUnion([taker.name, other]) }
        }
    }

    /// A document waits for another file under its name.
    func part(_ file: Node, from name: NameBytes, in directory: Node) {
        let document = file.item
        lost(file, name, in: directory, wasLast: false)
        documents.vacate(document, awaiting: name, in: directory)
        let orphan = makeItem()
        engine.vacate(document, orphan: orphan)
        nodes.renumber(file, as: orphan)
    }
}
