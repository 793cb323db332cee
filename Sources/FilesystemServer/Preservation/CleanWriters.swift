// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import Glibc
import LinuxSystem

/// Observes writers that had changed nothing when they were suspended or preempted (rule Y9). Such a writer has
/// *yielded clean*.
///
/// A file does not show which of its writers has changed it. So when another writer closes the file, the file's state
/// becomes the new baseline of each writer that yielded clean. If the file offset of such a writer has moved, the
/// writer may have written, and its baseline does not change.
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

    /// Returns whether a writer that had changed nothing when it was suspended or preempted may have changed its file after
    /// that.
    ///
    /// `claim`: a claim that was granted just now. Its program cannot have changed the file yet.
    func mayHaveChangedFile(_ writer: Handle, before claim: ClaimID? = nil) -> Bool {
        if writer.hasWritten {
            preserveProvisionalCopy(beside: writer)
            return true
        }
        if writer.observeWriting() == .clean { return false }
        let isChanged = !engine.hasWriter(besides: writer.currentClaim, and: claim) || writer.hasMoved
        guard isChanged else { return false }
        // The writer is marked now as one that has written. Later, the file's times may no longer show the change.
        writer.markWritten()
        preserveProvisionalCopy(beside: writer)
        return true
    }

    /// Returns whether a suspended writer of the claim's file, or a writer that the claim preempted, may have changed
    /// the file.
    ///
    /// `others` decides about writers that had already changed the file when they were suspended or preempted. Returns true if
    /// there are too many writers to check each.
    ///
    /// `isUnasked`: whether a claimant counts only if it can change the file without a further request, which a lease cannot.
    func hasChangedSuspendedWriter(
        _ claim: ClaimID, isUnasked: Bool = false, taking others: (Handle) -> Bool
    ) -> Bool {
        let most = SuspendedWriterVersions.mostWriters
        let found = engine.suspendedWriters(beside: claim, atMost: most + 1)
        guard found.count <= most else { return true }
        return found.contains { claimant in
            guard let writer = claimant as? Handle else { return !isUnasked || claimant.mayChangeFileUnasked }
            return hasYieldedClean(writer) ? mayHaveChangedFile(writer) : others(writer)
        }
    }

    /// Returns the writers of a file that had changed nothing when they were suspended or preempted. Leaves out `handle`, which
    /// is about to close or change the file.
    func unchangedWriters(of node: Node, besides handle: Handle?) -> [Handle] {
        guard node.isOpen(besides: handle == nil ? 0 : 1) else { return [] }
        return handles.writers(on: node).filter { writer in
            writer !== handle && hasYieldedClean(writer) && !(handle?.locks(like: writer) ?? false)
        }
    }

    /// Returns whether a writer has changed nothing, in a file that another writer has changed.
    func isStillUnchanged(_ writer: Handle) -> Bool {
        !writer.hasWritten && writer.observeWriting() != .clean && !writer.hasMoved
    }

    /// Called when another writer leaves the file. Makes the file's present state the baseline of the `unchanged`
    /// writers, so that later writes by them are detected.
    func rebaseline(_ node: Node, to unchanged: [Handle], by subject: any JournalSubject) {
        guard !unchanged.isEmpty, let status = node.presentStatus else { return }
        let left = preserver.makeProvisionalCopy(in: node, by: subject)
        for writer in unchanged {
            writer.noteBaseline(status, isRacy: context.isTimeRacy(status))
            let former = writer.replaceProvisionalCopy(with: left)
            withExtendedLifetime(former) {}
        }
    }

    /// Runs a step that sets the file's times. After the step, the file's state is the new baseline of each writer that
    /// has changed nothing.
    func refreshBaselines(of node: Node, over step: () throws(Errno) -> Void) throws(Errno) {
        let unchanged = unchangedWriters(of: node, besides: nil).filter { $0.observeWriting() == .clean }
        try step()
        guard !unchanged.isEmpty, let status = node.presentStatus else { return }
        for writer in unchanged { writer.noteBaseline(status, isRacy: context.isTimeRacy(status)) }
    }

    /// Makes a version of the provisional copy, because `writer` may have overwritten the copied contents.
    func preserveProvisionalCopy(beside writer: Handle) {
        guard let left = writer.takeProvisionalCopy() else { return }
        context.work(on: writer.node, for: .preserving) { [self] in
            preserver.preserve(left, in: writer.node, by: writer)
        }
    }

    /// Called when a writer closes the file. Discards the writer's provisional copy, unless the writer may have
    /// overwritten the copied contents.
    func discardProvisionalCopy(beside writer: Handle) {
        guard writer.hasProvisionalCopy else { return }
        if writer.mayHaveWritten { return preserveProvisionalCopy(beside: writer) }
        // When the copy object is released, it deletes its file in the store. That takes time, so it must not happen
        // while the handle is locked.
        let left = writer.takeProvisionalCopy()
        withExtendedLifetime(left) {}
    }

    /// Returns whether an overwrite would now lose contents. This is so if a preempted writer has written to the file, or if a
    /// presenter did not relinquish the file.
    ///
    /// A writer that had changed nothing when it was preempted may have written after that. For such a writer, the function
    /// checks whether the file has changed.
    func endangers(_ grant: Grant, by claim: ClaimID) -> Bool {
        !grant.unanswered.isEmpty || grant.preemptsMore
            || grant.preempted.contains { preempted in
                guard preempted.isClean, let writer = engine.claimant(of: preempted.claim) as? Handle else {
                    return true
                }
                return mayHaveChangedFile(writer, before: claim)
            }
    }

    /// Returns whether a preempted writer may have written data to a mapping that the kernel has not written to the
    /// file yet.
    ///
    /// Under passthrough there are no such data. Otherwise the answer is yes if the grant does not list all preempted
    /// writers.
    func mayHoldDirtyPages(_ grant: Grant, on node: Node) -> Bool {
        if case .backing = node.dataRoute { return false }
        return grant.preemptsMore || writers(passedBy: grant).contains { $0.mayHoldDirtyPages }
    }

    /// Returns the handles of the preempted writers that the grant lists.
    func writers(passedBy grant: Grant) -> [Handle] {
        grant.preempted.compactMap { engine.claimant(of: $0.claim) as? Handle }
    }

    /// Returns whether another program may overwrite a handle's contents without asking the daemon. Such a program is a
    /// suspended writer, or has preempted the handle.
    ///
    /// A lease has no file open. A program of its run must open the file again, and the contents are then preserved (D237).
    func mayBeOverwrittenUnseen(_ handle: Handle) -> Bool {
        guard handle.hasClaim else { return false }
        let claim = handle.currentClaim
        return engine.isSuperseded(claim)
            || hasChangedSuspendedWriter(claim, isUnasked: true) { _ in true }
    }

    /// Returns whether a handle may have changed its file. The result may also be true because another writer has changed the
    /// file, if the daemon cannot distinguish the two.
    func mayHaveWritten(_ handle: Handle) -> Bool {
        hasYieldedClean(handle) ? mayHaveChangedFile(handle) : handle.mayHaveWritten
    }

    /// Updates the baselines of a file's writers after a change of the file's names. Such a change sets a new time of
    /// the file (ctime), but changes no contents. Without the update, each writer would seem to have written.
    func refreshBaselines(of node: Node) {
        guard node.kind == S_IFREG, node.isOpen else { return }
        let writers = handles.writers(on: node)
        guard !writers.isEmpty, let status = node.presentStatus else { return }
        for writer in writers { writer.noteNameChange(Stamp(status)) }
    }
}
