// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import Glibc
import LinuxSystem

/// Claims for open files that become documents: helper files, databases and logs that are given the name of a document.
///
/// Many programs save like this, and close the file only after the rename. A program that writes on then contends with
/// others, and its writes are preserved when others take the file away.
extension DocumentIdentity {
    /// Claims the file for its writers. The caller calls it before the name is given: no other program claims such a
    /// file, so the claims are granted at once and follow the file to its document (R2). The caller calls it again
    /// afterwards, for opens that raced with the rename.
    func claimForWriters(of node: Node, named change: NameChange) {
        guard node.kind == S_IFREG, node.isOpen else { return }
        let itemClass = Node.itemClass(of: change.name, in: change.directory)
        for handle in handles.writers(on: node) where !handle.hasClaim {
            if AccessTable.opening(handle.flags, of: itemClass) != nil { claim(for: handle) }
        }
    }

    /// Enters a handle in the table, where renames of its file find it.
    func insert(_ handle: Handle) {
        handles.insert(handle)
        // The file may have become a document since the handle was made without a claim.
        if !handle.isClaimed, handle.mayWrite, handle.node.needsClaim(flags: handle.flags) {
            claim(for: handle)
        }
    }

    /// Ends the claims again, because the name was not given.
    func giveUpClaims(of node: Node) {
        guard node.kind == S_IFREG, node.isOpen else { return }
        for handle in handles.writers(on: node) where !handle.isClaimed {
            guard AccessTable.opening(handle.flags, of: node.itemClass) == nil else { continue }
            let claim = handle.giveUpLateClaim()
            if let claim { engine.end(claim) }
        }
    }

    private func claim(for handle: Handle) {
        let (node, claim) = (handle.node, engine.makeClaimID())
        let part = ClaimRequest.Part(node.item, handle.access, at: places.place(of: node))
        // A save may write on by the handle: a reader that came in would get a part of the document.
        let request = ClaimRequest(
            claim, .handle, part, accessPattern: data.accessPattern(of: handle).subtracting(.appends))
        guard engine.tryClaim(request, by: handle) else {
            return markUnclaimedWriter(handle)
        }
        let isFirst = handle.claimLate(claim)
        // The handle was claimed or closed meanwhile, so no other code would end this claim.
        guard isFirst, handles[handle.id] != nil else { return engine.end(claim) }
        // Its thread may be gone when another claim meets it.
        _ = handle.identify()
        beginAnew(handle)
    }

    /// Marks a writer without a claim, because none is granted at once: the file has several writers, presenters or accesses by
    /// the socket. No claim waits for this writer, but its writes from now on are preserved like theirs.
    private func markUnclaimedWriter(_ handle: Handle) {
        if handle.becomeBystander() { beginAnew(handle) }
    }

    /// Reports the writes of a handle so far, and takes them as the document's contents.
    private func beginAnew(_ handle: Handle) {
        guard !handle.writesToOrphan, let status = handle.node.presentStatus else {
            return
        }
        events.noteChange(by: handle)
        handle.noteBaseline(status, isRacy: context.isTimeRacy(status))
        handle.forgetWrites()
    }
}
