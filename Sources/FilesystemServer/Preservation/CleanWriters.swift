// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import Glibc
import LinuxSystem
import Synchronization

/// Writers that let others pass because they had changed nothing (Y9), and what others write beside them.
///
/// A file does not tell which of its writers has changed it. So each time another writer closes the file, what it leaves is
/// what such a writer is measured by from then on, unless its position tells that it may have written meanwhile.
extension CoordinatedFilesystem {
    func hasYieldedClean(_ writer: Handle) -> Bool {
        writer.hasClaim && engine.hasYieldedClean(writer.currentClaim)
    }

    /// Whether a writer that let others pass as one that had changed nothing may have changed its file since. A claim that was just
    /// granted has not changed it.
    func mayHaveChangedFile(_ writer: Handle, before claim: ClaimID? = nil) -> Bool {
        if writer.state.withLock({ $0.hasWritten }) {
            preserveProvisionalCopy(beside: writer)
            return true
        }
        if writer.observeWriting() == .clean { return false }
        let isChanged = !engine.hasWriter(besides: writer.currentClaim, and: claim) || writer.hasMoved
        guard isChanged else { return false }
        // It cannot be told later any more.
        writer.markWritten()
        preserveProvisionalCopy(beside: writer)
        return true
    }

    /// Whether a suspended writer beside a claim, or one that it went over, may have changed the file.
    /// Of very many not each is looked at: then one may have.
    func hasChangedSuspendedWriter(_ claim: ClaimID, taking others: (Handle) -> Bool) -> Bool {
        let most = SuspendedWriterVersions.mostWriters
        let found = engine.suspendedWriters(beside: claim, atMost: most + 1)
        guard found.count <= most else { return true }
        return found.contains { claimant in
            guard let writer = claimant as? Handle else { return true }
            return hasYieldedClean(writer) ? mayHaveChangedFile(writer) : others(writer)
        }
    }

    /// Those of a file's writers that let others pass, but for one that is about to close it or to change it.
    func unchangedWriters(of node: Node, besides handle: Handle?) -> [Handle] {
        guard node.state.withLock({ $0.opens > (handle == nil ? 0 : 1) }) else { return [] }
        return handles.writers(on: node).filter { writer in
            writer !== handle && hasYieldedClean(writer) && !(handle?.locks(like: writer) ?? false)
        }
    }

    /// Whether a writer has changed nothing, though others have.
    func isStillUnchanged(_ writer: Handle) -> Bool {
        !writer.state.withLock { $0.hasWritten } && writer.observeWriting() != .clean && !writer.hasMoved
    }

    /// What another writer leaves in the file is what these are measured by. Whoever writes from here on is found to have.
    func rebaseline(_ node: Node, to unchanged: [Handle], by subject: any JournalSubject) {
        guard !unchanged.isEmpty, let status = node.presentStatus else { return }
        let left = preserver.makeProvisionalCopy(in: node, by: subject)
        for writer in unchanged {
            noteBaseline(of: writer, status)
            let former = writer.state.withLock { state in
                defer { state.left = left }
                return state.left.take()
            }
            withExtendedLifetime(former) {}
        }
    }

    /// Those that have changed nothing have not changed the times either that are set now.
    func refreshBaselines(of node: Node, over step: () throws(Errno) -> Void) throws(Errno) {
        let unchanged = unchangedWriters(of: node, besides: nil).filter { $0.observeWriting() == .clean }
        try step()
        guard !unchanged.isEmpty, let status = node.presentStatus else { return }
        for writer in unchanged { noteBaseline(of: writer, status) }
    }

    /// A writer that had changed nothing has gone over what others left in the file, or may have.
    func preserveProvisionalCopy(beside writer: Handle) {
        guard let left = writer.state.withLock({ $0.left.take() }) else { return }
        work(on: writer.node, for: .preserving) { [self] in
            preserver.preserve(left, in: writer.node, by: writer)
        }
    }

    /// Such a writer closes the file.
    func discardProvisionalCopy(beside writer: Handle) {
        guard writer.state.withLock({ $0.left != nil }) else { return }
        if writer.mayHaveWritten { return preserveProvisionalCopy(beside: writer) }
        // The copy removes its file when it goes, and that is not done under the lock.
        let left = writer.state.withLock { $0.left.take() }
        withExtendedLifetime(left) {}
    }

    /// Whether somebody who was passed has written what would be lost now, or shows it and did not let go.
    ///
    /// A writer that yielded clean may have written since, which its file tells.
    func endangers(_ grant: Grant, by claim: ClaimID) -> Bool {
        !grant.unanswered.isEmpty || grant.preemptsMore
            || grant.preempted.contains { preempted in
                guard preempted.isClean, let writer = engine.claimant(of: preempted.claim) as? Handle else {
                    return true
                }
                return mayHaveChangedFile(writer, before: claim)
            }
    }

    /// Whether the kernel may have what a passed writer has stored, and the file does not show it.
    ///
    /// All that have a file open go the same way to its data. If there are more writers than the grant lists, one is taken to have
    /// stored something.
    func mayHoldDirtyPages(_ grant: Grant, on node: Node) -> Bool {
        if case .backing = node.state.withLock({ $0.dataRoute }) { return false }
        return grant.preemptsMore || writers(passedBy: grant).contains { $0.mayHoldDirtyPages }
    }

    /// Those that the grant lists.
    func writers(passedBy grant: Grant) -> [Handle] {
        grant.preempted.compactMap { engine.claimant(of: $0.claim) as? Handle }
    }

    /// Whether what a handle leaves may be written over without being seen: by a suspended writer, or by whoever it had to let
    /// pass.
    func mayBeOverwrittenUnseen(_ handle: Handle) -> Bool {
        guard handle.hasClaim else { return false }
        let claim = handle.currentClaim
        return engine.isSuperseded(claim) || hasChangedSuspendedWriter(claim) { _ in true }
    }

    /// Whether a handle may have changed its file, as far as that can be told from what others did.
    func mayHaveWritten(_ handle: Handle) -> Bool {
        hasYieldedClean(handle) ? mayHaveChangedFile(handle) : handle.mayHaveWritten
    }
}
