// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import Glibc
import LinuxSystem

/// Writers that were suspended or preempted because they had changed nothing (Y9), and the writes of others beside
/// them.
///
/// A file does not tell which of its writers has changed it. So each time another writer closes the file, its state
/// becomes the new baseline of such a writer. If the writer's position has moved, it may have written meanwhile, and its
/// baseline stays.
final class CleanWriters: Sendable {
    private let context: MountContext
    private let preserver: ContentPreserver
    private let engine: Engine
    private let handles: HandleTable

    init(_ context: MountContext, _ tree: FileTree, _ preserver: ContentPreserver) {
        self.context = context
        self.preserver = preserver
        engine = context.engine
        handles = tree.handles
    }

    func hasYieldedClean(_ writer: Handle) -> Bool {
        writer.hasClaim && engine.hasYieldedClean(writer.currentClaim)
    }

    /// Whether a writer that yielded clean may have changed its file since. A claim that was just granted has not
    /// changed it.
    func mayHaveChangedFile(_ writer: Handle, before claim: ClaimID? = nil) -> Bool {
        if writer.hasWritten {
            preserveProvisionalCopy(beside: writer)
            return true
        }
        if writer.observeWriting() == .clean { return false }
        let isChanged = !engine.hasWriter(besides: writer.currentClaim, and: claim) || writer.hasMoved
        guard isChanged else { return false }
        // Mark it now, because later it can no longer be told.
        writer.markWritten()
        preserveProvisionalCopy(beside: writer)
        return true
    }

    /// Whether a suspended writer beside a claim, or one that the claim preempted, may have changed the file.
    ///
    /// If there are too many to observe, one of them may have.
    func hasChangedSuspendedWriter(_ claim: ClaimID, taking others: (Handle) -> Bool) -> Bool {
        let most = SuspendedWriterVersions.mostWriters
        let found = engine.suspendedWriters(beside: claim, atMost: most + 1)
        guard found.count <= most else { return true }
        return found.contains { claimant in
            guard let writer = claimant as? Handle else { return true }
            return hasYieldedClean(writer) ? mayHaveChangedFile(writer) : others(writer)
        }
    }

    /// The writers of a file that yielded clean, except one that is about to close the file or to change it.
    func unchangedWriters(of node: Node, besides handle: Handle?) -> [Handle] {
        guard node.isOpen(besides: handle == nil ? 0 : 1) else { return [] }
        return handles.writers(on: node).filter { writer in
            writer !== handle && hasYieldedClean(writer) && !(handle?.locks(like: writer) ?? false)
        }
    }

    /// Whether a writer has changed nothing, though others have.
    func isStillUnchanged(_ writer: Handle) -> Bool {
        !writer.hasWritten && writer.observeWriting() != .clean && !writer.hasMoved
    }

    /// Makes the file's state after another writer the baseline of these writers, so that their later writes are
    /// detected.
    func rebaseline(_ node: Node, to unchanged: [Handle], by subject: any JournalSubject) {
        guard !unchanged.isEmpty, let status = node.presentStatus else { return }
        let left = preserver.makeProvisionalCopy(in: node, by: subject)
        for writer in unchanged {
            writer.noteBaseline(status, isRacy: context.isTimeRacy(status))
            let former = writer.replaceProvisionalCopy(with: left)
            withExtendedLifetime(former) {}
        }
    }

    /// Runs a step that sets the file's times, and updates the baselines of writers that have changed nothing.
    func refreshBaselines(of node: Node, over step: () throws(Errno) -> Void) throws(Errno) {
        let unchanged = unchangedWriters(of: node, besides: nil).filter { $0.observeWriting() == .clean }
        try step()
        guard !unchanged.isEmpty, let status = node.presentStatus else { return }
        for writer in unchanged { writer.noteBaseline(status, isRacy: context.isTimeRacy(status)) }
    }

    /// Preserves the state that others left in the file, if a writer that had changed nothing may have overwritten it.
    func preserveProvisionalCopy(beside writer: Handle) {
        guard let left = writer.takeProvisionalCopy() else { return }
        context.work(on: writer.node, for: .preserving) { [self] in
            preserver.preserve(left, in: writer.node, by: writer)
        }
    }

    /// Discards the provisional copy of such a writer at its close.
    func discardProvisionalCopy(beside writer: Handle) {
        guard writer.hasProvisionalCopy else { return }
        if writer.mayHaveWritten { return preserveProvisionalCopy(beside: writer) }
        // The copy removes its file when it is released, and that must not happen under the lock.
        let left = writer.takeProvisionalCopy()
        withExtendedLifetime(left) {}
    }

    /// Whether a preempted writer has written contents that would be lost now, or a presenter did not relinquish them.
    ///
    /// A writer that yielded clean may have written since, as its file shows.
    func endangers(_ grant: Grant, by claim: ClaimID) -> Bool {
        !grant.unanswered.isEmpty || grant.preemptsMore
            || grant.preempted.contains { preempted in
                guard preempted.isClean, let writer = engine.claimant(of: preempted.claim) as? Handle else {
                    return true
                }
                return mayHaveChangedFile(writer, before: claim)
            }
    }

    /// Whether the kernel may hold stores of a preempted writer that the file does not show.
    ///
    /// All openers of a file use the same data route. If there are more writers than the grant lists, one of them may
    /// have stored data.
    func mayHoldDirtyPages(_ grant: Grant, on node: Node) -> Bool {
        if case .backing = node.dataRoute { return false }
        return grant.preemptsMore || writers(passedBy: grant).contains { $0.mayHoldDirtyPages }
    }

    /// The writers that the grant lists.
    func writers(passedBy grant: Grant) -> [Handle] {
        grant.preempted.compactMap { engine.claimant(of: $0.claim) as? Handle }
    }

    /// Whether the state that a handle leaves may be overwritten unseen, by a suspended writer or by a claim that
    /// preempted the handle.
    func mayBeOverwrittenUnseen(_ handle: Handle) -> Bool {
        guard handle.hasClaim else { return false }
        let claim = handle.currentClaim
        return engine.isSuperseded(claim) || hasChangedSuspendedWriter(claim) { _ in true }
    }

    /// Whether a handle may have changed its file, as far as the changes of other writers tell.
    func mayHaveWritten(_ handle: Handle) -> Bool {
        hasYieldedClean(handle) ? mayHaveChangedFile(handle) : handle.mayHaveWritten
    }

    /// Updates the baselines after a change of names, which changes the last of the file's times but no contents.
    /// Writers that have written nothing stay unchanged.
    func refreshBaselines(of node: Node) {
        guard node.kind == S_IFREG, node.isOpen else { return }
        let writers = handles.writers(on: node)
        guard !writers.isEmpty, let status = node.presentStatus else { return }
        for writer in writers { writer.noteNameChange(Stamp(status)) }
    }
}
