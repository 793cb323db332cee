// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import LinuxSystem

/// Carries out moves that programs announce over the control socket, because they make the moves without `rename(2)`.
///
/// For example, a program saves a document in another format. The program writes a new file with another name, and deletes the
/// file under the former name.
extension DocumentFinder {
    func announceMove(
        of document: any TrackedDocument, to path: [UInt8], by party: Party, under claim: ClaimID
    ) throws(MoveFailure) {
        let found: any TrackedDocument
        do throws(LookupFailure) { found = try find(path) } catch { throw .unreachable(error) }
        defer { found.release() }
        guard found.item != document.item else { return }
        guard case .node(let node) = documents.place(of: found.item) else { throw .missing }
        let (newName, parent, _) = node.location
        guard let parent, let former = documents.redirect(document.item, to: node) else { throw .notMoved }
        let move = Move(
            from: places.place(former.name, in: former.directory), to: places.place(newName, in: parent))
        let item = identity.adopt(document.item, by: node)
        engine.noteMove(of: item, move, by: party, under: claim)
        _ = identity.takeBack(item, from: node, called: newName, in: parent) { party }
    }
}
