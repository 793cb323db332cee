// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import Glibc
import LinuxSystem
import Synchronization

/// Files that somebody has open, and about which programs take turns from now on: those of helper files, databases and logs that are
/// given the name of a document.
///
/// Many save so, and close the file after the rename only. Whoever goes on to write is in others' way then, and what it writes is
/// kept when they take the file away.
extension CoordinatedFilesystem {
    /// To be called before the name is given: nobody else claims such a file, so the claims are granted at once, and follow the file
    /// to whatever document it becomes (R2). And again when it has been, for those who were opening the file meanwhile.
    func claimForWriters(of node: Node, named change: NameChange) {
        guard node.kind == S_IFREG, node.state.withLock({ $0.opens > 0 }) else { return }
        let itemClass = Node.itemClass(of: change.name, in: change.directory)
        for handle in handles.writers(on: node) where !handle.hasClaim {
            if AccessTable.opening(handle.flags, of: itemClass) != nil { claim(for: handle) }
        }
    }

    /// From now on a handle is seen by whoever changes the names of its file.
    func insert(_ handle: Handle) {
        handles.insert(handle)
        // It may have become a document since the handle was made without a claim.
        if !handle.isClaimed, handle.mayWrite, isCoordinated(handle.node, flags: handle.flags) {
            claim(for: handle)
        }
    }

    /// The name was not given after all.
    func giveUpClaims(of node: Node) {
        guard node.kind == S_IFREG, node.state.withLock({ $0.opens > 0 }) else { return }
        for handle in handles.writers(on: node) where !handle.isClaimed {
            guard AccessTable.opening(handle.flags, of: node.itemClass) == nil else { continue }
            let claim = handle.state.withLock { $0.renewedClaim.take() }
            if let claim { engine.end(claim) }
        }
    }

    /// A file was given or has lost a name, which changes the last of its times and nothing in it: who has written nothing has written
    /// nothing yet.
    func refreshBaselines(of node: Node) {
        guard node.kind == S_IFREG, node.state.withLock({ $0.opens > 0 }) else { return }
        let writers = handles.writers(on: node)
        guard !writers.isEmpty, let status = node.presentStatus else { return }
        for writer in writers { writer.noteNameChange(Stamp(status)) }
    }

    private func claim(for handle: Handle) {
        let (node, claim) = (handle.node, engine.makeClaimID())
        let part = ClaimRequest.Part(node.item, handle.access, at: places.place(of: node))
        // A save may write on by the handle: a reader that came in would get a part of the document.
        let request = ClaimRequest(
            claim, .handle, part, accessPattern: accessPattern(of: handle).subtracting(.appends))
        guard engine.tryClaim(request, by: handle) else {
            return markUnclaimedWriter(handle)
        }
        let isFirst = handle.state.withLock { state in
            if state.renewedClaim == nil { state.renewedClaim = claim }
            return state.renewedClaim == claim
        }
        // Claimed or closed meanwhile: nobody else would end it.
        guard isFirst, handles[handle.id] != nil else { return engine.end(claim) }
        // Its thread may be gone when somebody meets it.
        _ = handle.identify()
        beginAnew(handle)
    }

    /// Several write to it, or somebody shows it or has it by the socket. Nobody waits for this one then; but what it writes from
    /// now on is kept like theirs.
    private func markUnclaimedWriter(_ handle: Handle) {
        let isNew = handle.state.withLock { state in
            defer { state.isUnclaimedWriter = true }
            return !state.isUnclaimedWriter
        }
        if isNew { beginAnew(handle) }
    }

    /// What a handle has written so far is told now, and is what the document has in it.
    private func beginAnew(_ handle: Handle) {
        guard !handle.state.withLock({ $0.writesToOrphan }), let status = handle.node.presentStatus else {
            return
        }
        noteChange(by: handle)
        noteBaseline(of: handle, status)
        handle.state.withLock { $0.hasWritten = false }
    }
}
