// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import Glibc
import LinuxSystem

/// Makes claims for files that are already open when they become documents: helper files, databases and logs that get a
/// document's name.
///
/// Many programs save by renaming such a file to the document's name, and close the file only after the rename. Other
/// programs wait for the document until then. If another program replaces or removes the file, the writes of the saving
/// program are preserved.
extension DocumentIdentity {
    /// Makes a claim for each handle by which a program may write to the file. The caller calls this function before the file
    /// gets the document's name. At that time no other program has a claim on the file, so the claims are granted without a
    /// wait. They follow the file to its document (rule R2).
    ///
    /// The caller calls this function a second time after the rename, for handles that were opened between the two calls.
    func claimForWriters(of node: Node, named change: NameChange) {
        guard node.kind == S_IFREG, node.isOpen else { return }
        let itemClass = Node.itemClass(of: change.name, in: change.directory)
        for handle in handles.writers(on: node) where !handle.hasClaim {
            if AccessTable.opening(handle.flags, of: itemClass) != nil { claim(for: handle) }
        }
    }

    /// Adds a handle to the table of open handles. A rename of the file searches this table for the file's writers.
    func insert(_ handle: Handle) {
        handles.insert(handle)
        // The file may have become a document after the open found that the handle needs no claim. So the check is repeated.
        if !handle.isClaimed, handle.mayWrite, handle.node.needsClaim(flags: handle.flags) {
            claim(for: handle)
        }
    }

    /// Ends the claims that `claimForWriters` made, because the file has not got the document's name.
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
        // Readers must wait for this claim even if the program only appends. The program is still saving, and a reader would
        // get an incomplete document.
        let request = ClaimRequest(
            claim, .handle, part, accessPattern: data.accessPattern(of: handle).subtracting(.appends))
        guard engine.tryClaim(request, by: handle) else {
            return markUnclaimedWriter(handle)
        }
        let isFirst = handle.claimLate(claim)
        // While this claim was made, the handle has got another claim or was closed. In both cases only this code can
        // end this claim.
        guard isFirst, handles[handle.id] != nil else { return engine.end(claim) }
        // The program is identified now. Later, when another claim waits for this claim, the handle's thread may have ended.
        _ = handle.identify()
        beginAnew(handle)
    }

    /// Marks a handle that could not get a claim without a wait, because the file has other writers, presenters, or accesses
    /// over the control socket.
    ///
    /// No other program waits for this handle. From now on, its writes are preserved like the writes of a handle with a claim.
    private func markUnclaimedWriter(_ handle: Handle) {
        if handle.becomeBystander() { beginAnew(handle) }
    }

    /// Sends an event for what the handle has written so far. From now on, the present contents are the handle's baseline.
    private func beginAnew(_ handle: Handle) {
        guard !handle.writesToOrphan, let status = handle.node.presentStatus else {
            return
        }
        events.noteChange(by: handle)
        handle.noteBaseline(status, isRacy: context.isTimeRacy(status))
        handle.forgetWrites()
    }
}
