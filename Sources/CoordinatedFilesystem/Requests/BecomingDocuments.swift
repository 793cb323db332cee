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
    /// to whatever document it becomes (R2).
    func claimForWriters(of node: Node, before change: NameChange) {
        guard node.kind == S_IFREG, node.state.withLock({ $0.opens > 0 }) else { return }
        let itemClass = Node.itemClass(of: change.name, in: change.directory)
        for handle in handles.writers(on: node) where !handle.hasClaim {
            guard AccessTable.opening(handle.flags, of: itemClass) != nil else { continue }
            claim(for: handle)
        }
    }

    /// A file was given or has lost a name, which changes the last of its times and nothing in it: who has written nothing has written
    /// nothing yet.
    func keepBaselines(of node: Node) {
        guard node.kind == S_IFREG, node.state.withLock({ $0.opens > 0 }) else { return }
        let writers = handles.writers(on: node)
        guard !writers.isEmpty, let status = node.presentStatus else { return }
        for writer in writers { writer.hasNewName(Stamp(status)) }
    }

    private func claim(for handle: Handle) {
        let node = handle.node
        // What it has written so far is what the document has in it.
        if !handle.state.withLock({ $0.writesToOrphan }), let status = node.presentStatus {
            noteBaseline(of: handle, status)
        }
        let claim = engine.makeClaimID()
        let isFirst = handle.state.withLock { state in
            if state.renewed == nil { state.renewed = claim }
            return state.renewed == claim
        }
        guard isFirst else { return }
        // Its thread may be gone when somebody meets it.
        _ = handle.identify()
        let part = Request.Part(node.item, handle.access, at: places.place(of: node))
        if case .waiting = engine.claim(Request(claim, .handle, part), by: handle) {
            // Somebody has it by the socket, or shows the package that it is in. The file is open all the same.
            engine.whenSettled(claim) { _ in }
        }
        // Closed meanwhile: nobody else would end it.
        if handles[handle.id] == nil { engine.end(claim) }
    }
}
