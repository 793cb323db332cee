// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import Glibc
import LinuxSystem

/// Treats writers that were suspended or preempted while they had changed nothing (rule Y9): they have *yielded clean*.
///
/// A file does not show which of its writers has changed it. So when another writer closes the file, the file's state
/// becomes the new baseline of a writer that yielded clean. If the file offset of that writer has moved, the writer may
/// have written. Its baseline then stays.
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

    /// Returns whether a writer that yielded clean may have changed its file since.
    ///
    /// `claim`: a claim that was just granted, so that its program has not changed the file.
    func mayHaveChangedFile(_ writer: Handle, before claim: ClaimID? = nil) -> Bool {
        if writer.hasWritten {
            preserveProvisionalCopy(beside: writer)
            return true
        }
        if writer.observeWriting() == .clean { return false }
        let isChanged = !engine.hasWriter(besides: writer.currentClaim, and: claim) || writer.hasMoved
        guard isChanged else { return false }
        // The writer is marked as one that has written, because later the file no longer shows this.
        writer.markWritten()
        preserveProvisionalCopy(beside: writer)
        return true
    }

    /// Returns whether a suspended writer of the claim's file, or a writer that the claim preempted, may have changed the
    /// file.
    ///
    /// Returns true if there are too many such writers to observe. `others` decides about writers that had not yielded
    /// clean.
    func hasChangedSuspendedWriter(_ claim: ClaimID, taking others: (Handle) -> Bool) -> Bool {
        let most = SuspendedWriterVersions.mostWriters
        let found = engine.suspendedWriters(beside: claim, atMost: most + 1)
        guard found.count <= most else { return true }
        return found.contains { claimant in
            guard let writer = claimant as? Handle else { return true }
            return hasYieldedClean(writer) ? mayHaveChangedFile(writer) : others(writer)
        }
    }

    /// Returns the writers of a file that yielded clean, except `handle`, which is about to close or change the file.
    func unchangedWriters(of node: Node, besides handle: Handle?) -> [Handle] {
        guard node.isOpen(besides: handle == nil ? 0 : 1) else { return [] }
        return handles.writers(on: node).filter { writer in
            writer !== handle && hasYieldedClean(writer) && !(handle?.locks(like: writer) ?? false)
        }
    }

    /// Returns whether a writer has changed nothing, although another writer has changed the file.
    func isStillUnchanged(_ writer: Handle) -> Bool {
        !writer.hasWritten && writer.observeWriting() != .clean && !writer.hasMoved
    }

    /// Makes the state in which another writer leaves the file the baseline of the `unchanged` writers, so that their
    /// later writes are detected.
    func rebaseline(_ node: Node, to unchanged: [Handle], by subject: any JournalSubject) {
        guard !unchanged.isEmpty, let status = node.presentStatus else { return }
        let left = preserver.makeProvisionalCopy(in: node, by: subject)
        for writer in unchanged {
            writer.noteBaseline(status, isRacy: context.isTimeRacy(status))
            let former = writer.replaceProvisionalCopy(with: left)
            withExtendedLifetime(former) {}
        }
    }

    /// Runs a step that sets the file's times. Afterwards updates the baselines of writers that have changed nothing.
    func refreshBaselines(of node: Node, over step: () throws(Errno) -> Void) throws(Errno) {
        let unchanged = unchangedWriters(of: node, besides: nil).filter { $0.observeWriting() == .clean }
        try step()
        guard !unchanged.isEmpty, let status = node.presentStatus else { return }
        for writer in unchanged { writer.noteBaseline(status, isRacy: context.isTimeRacy(status)) }
    }

    /// Preserves the provisional copy of the contents that others left, because `writer` may have overwritten them.
    func preserveProvisionalCopy(beside writer: Handle) {
        guard let left = writer.takeProvisionalCopy() else { return }
        context.work(on: writer.node, for: .preserving) { [self] in
            preserver.preserve(left, in: writer.node, by: writer)
        }
    }

    /// Discards the provisional copy of a writer that closes the file, unless the writer may have written.
    func discardProvisionalCopy(beside writer: Handle) {
        guard writer.hasProvisionalCopy else { return }
        if writer.mayHaveWritten { return preserveProvisionalCopy(beside: writer) }
        // The copy deletes its file in the store when the copy is released. The release must not happen under the
        // handle's lock.
        let left = writer.takeProvisionalCopy()
        withExtendedLifetime(left) {}
    }

    /// Returns whether contents would be lost now: a preempted writer has written some, or a presenter did not relinquish
    /// the file.
    ///
    /// A writer that yielded clean may have written since then. The file shows whether it has.
    func endangers(_ grant: Grant, by claim: ClaimID) -> Bool {
        !grant.unanswered.isEmpty || grant.preemptsMore
            || grant.preempted.contains { preempted in
                guard preempted.isClean, let writer = engine.claimant(of: preempted.claim) as? Handle else {
                    return true
                }
                return mayHaveChangedFile(writer, before: claim)
            }
    }

    /// Returns whether the kernel may have data that a preempted writer has stored to a mapping, and that are not in the
    /// file yet.
    ///
    /// All openers of a file use the same data route. If the grant does not list all preempted writers, an unlisted
    /// writer may have stored data.
    func mayHoldDirtyPages(_ grant: Grant, on node: Node) -> Bool {
        if case .backing = node.dataRoute { return false }
        return grant.preemptsMore || writers(passedBy: grant).contains { $0.mayHoldDirtyPages }
    }

    /// Returns the preempted writers that the grant lists.
    func writers(passedBy grant: Grant) -> [Handle] {
        grant.preempted.compactMap { engine.claimant(of: $0.claim) as? Handle }
    }

    /// Returns whether another program may overwrite the contents that a handle leaves, unseen by the daemon. That
    /// program is a suspended writer, or one that preempted the handle.
    func mayBeOverwrittenUnseen(_ handle: Handle) -> Bool {
        guard handle.hasClaim else { return false }
        let claim = handle.currentClaim
        return engine.isSuperseded(claim) || hasChangedSuspendedWriter(claim) { _ in true }
    }

    /// Returns whether a handle may have changed its file. Leaves out the changes of other writers, as far as they can be
    /// told apart.
    func mayHaveWritten(_ handle: Handle) -> Bool {
        hasYieldedClean(handle) ? mayHaveChangedFile(handle) : handle.mayHaveWritten
    }

    /// Updates the baselines of a file's writers after a change of its names. Such a change alters the last of the file's
    /// times, but not its contents. So a writer that has written nothing still counts as unchanged.
    func refreshBaselines(of node: Node) {
        guard node.kind == S_IFREG, node.isOpen else { return }
        let writers = handles.writers(on: node)
        guard !writers.isEmpty, let status = node.presentStatus else { return }
        for writer in writers { writer.noteNameChange(Stamp(status)) }
    }
}
