// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import LinuxSystem
import VersionStore

/// The third step of an open: preserves contents that the open, or later writes through its handle, would destroy.
final class OpenPreservation: Sendable {
    /// The work that must be done before a file is opened.
    enum Work {
        case ready
        /// The store has hard links to this file that have no writers. Before the file is opened to write, each link is
        /// replaced by a copy.
        case detachingLinks
        /// A preempted writer seems to have changed nothing. To check this, its file offset is read, and data that it
        /// has written to a mapping are written to the file.
        case observing(Grant, writesBack: Bool)
        /// The file's contents are preserved, because preempted programs would lose them.
        case preserving(Grant)
        /// The program would perhaps replace contents that it has not read (``UnseenOverwrites``).
        case reviewing(ChangeReview)
        /// The contents are preserved, because a run is about to write the file, or a rule asks for it (``WriteHistory``).
        case keepingHistory(Grant?)
    }

    /// The request of an open, which waits while this work is done.
    struct Waiter: Sendable {
        /// Returns false if the request was already answered, because of a signal or an unmount. Then nothing need be
        /// preserved.
        let isAwaited: @Sendable () -> Bool
        /// Called once, when the work is done. `mayOpen` is false if the file must not be opened.
        let resume: @Sendable (_ mayOpen: Bool) -> Void
    }

    private let context: MountContext
    private let preserver: ContentPreserver
    private let cleanWriters: CleanWriters
    private let unseenOverwrites: UnseenOverwrites
    private let unsavedStats: UnsavedStats
    private let writeHistory: WriteHistory

    init(
        _ context: MountContext, _ preserver: ContentPreserver, _ cleanWriters: CleanWriters,
        _ unseenOverwrites: UnseenOverwrites, _ unsavedStats: UnsavedStats,
        _ writeHistory: WriteHistory
    ) {
        self.unseenOverwrites = unseenOverwrites
        self.context = context
        self.preserver = preserver
        self.cleanWriters = cleanWriters
        self.unsavedStats = unsavedStats
        self.writeHistory = writeHistory
    }

    var merges: PendingMerges { unseenOverwrites.merges }
    /// Whether opens must wait for merges.
    var mayMerge: Bool { unseenOverwrites.mayMerge }

    /// Returns the work that must be done next before the file is opened. If no work is left, adds the handle to the
    /// writers of the store's hard links.
    ///
    /// - Parameters:
    ///   - handle: The handle that is about to be opened.
    ///   - grant: The grant of the handle's claim; nil if the contents were preserved, or if there is no claim.
    /// - Returns: The next work.
    @inline(__always)
    func prepare(_ handle: Handle, _ grant: Grant?) -> Work {
        let isChange = handle.mayWrite || handle.truncates
        // A reader that passes no other program destroys nothing.
        if !isChange, grant?.passesOthers != true { return .ready }
        if isChange, handle.node.hasLinksWithoutWriters { return .detachingLinks }
        // This comes before the contents of preempted programs are preserved: the open must follow that at once, because such a
        // program may still write.
        if isChange, handle.overwrite == .due, let review = unseenOverwrites.review(handle) {
            return .reviewing(review)
        }
        if isChange, writeHistory.isDue(handle) { return .keepingHistory(grant) }
        if let grant {
            let writesBack = cleanWriters.mayHoldDirtyPages(grant, on: handle.node)
            if writesBack || grant.preempted.contains(where: \.isClean) {
                return .observing(grant, writesBack: writesBack)
            }
            if cause(for: handle, grant) != nil { return .preserving(grant) }
        }
        // The last writer of a hard link may have closed the file since the check.
        return !isChange || preserver.join(handle) ? .ready : .detachingLinks
    }

    /// Does the work, and then resumes the open. Other threads do the work, unless nothing need be done.
    func perform(_ work: Work, for handle: Handle, _ grant: Grant?, _ waiter: Waiter) {
        switch work {
        case .ready: waiter.resume(true)
        case .detachingLinks:
            context.work(on: handle.node, for: .preserving) { [self] in
                do throws(StoreError) { try preserver.detachLinks(of: handle.node) } catch {
                    return waiter.resume(false)
                }
                proceed(handle, grant, waiter)
            }
        case .observing(let grant, let writesBack):
            handle.node.threads(for: writesBack ? .fileObservation : .processObservation).run { [self] in
                observe(handle, grant, writesBack: writesBack)
                preserve(for: handle, grant, waiter)
            }
        case .preserving(let grant): preserve(for: handle, grant, waiter)
        case .reviewing(let review):
            context.work(on: handle.node, for: .preserving) { [self] in
                // If a program that had changed the file was preempted, the contents are preserved for this program.
                let isPreserved = grant.map { cleanWriters.endangers($0, by: handle.claim) } ?? false
                guard waiter.isAwaited(),
                    unseenOverwrites.prepare(review, for: handle, isPreserved: isPreserved)
                else { return waiter.resume(false) }
                proceed(handle, grant, waiter)
            }
        case .keepingHistory(let grant):
            context.work(on: handle.node, for: .preserving) { [self] in
                if waiter.isAwaited() { writeHistory.preserve(for: handle) }
                proceed(handle, grant, waiter)
            }
        }
    }

    /// Continues with the remaining work. If the open was interrupted, ends it.
    private func proceed(_ handle: Handle, _ grant: Grant?, _ waiter: Waiter) {
        guard waiter.isAwaited() else { return waiter.resume(false) }
        perform(prepare(handle, grant), for: handle, grant, waiter)
    }

    private func observe(_ handle: Handle, _ grant: Grant, writesBack: Bool) {
        if writesBack { handle.node.writeBackStores() }
        // If very many writers were preempted, they are not checked one by one. Each of them counts as having written.
        guard !grant.preemptsMore else { return }
        for writer in cleanWriters.writers(passedBy: grant) where cleanWriters.hasYieldedClean(writer) {
            writer.recordObservedPosition()
        }
    }

    /// Preserves the contents of preempted programs, which this open would destroy.
    private func preserve(for handle: Handle, _ grant: Grant, _ waiter: Waiter) {
        context.work(on: handle.node, for: .preserving) { [self] in
            do throws(StoreError) {
                // If the open was interrupted, it will change nothing, so nothing need be preserved.
                let cause = waiter.isAwaited() ? cause(for: handle, grant) : nil
                if let cause, !handle.onlyAppends {
                    try preserver.preserveContents(
                        of: handle.node, because: cause, by: handle, doubting: context.isTimeRacy
                    ) { proceed(handle, nil, waiter) }
                    context.engine.runs.noteOwnChange(of: handle.item, by: handle.identify)
                } else {
                    if let cause {
                        try preserver.preserveContents(of: handle.node, because: cause, by: handle)
                    }
                    proceed(handle, nil, waiter)
                }
            } catch {
                waiter.resume(false)
            }
            preserver.letGoOfGrown(by: handle)
        }
    }

    /// The reason for which a file's contents are preserved before the open; nil if no program would lose contents.
    private func cause(for handle: Handle, _ grant: Grant) -> PreservationCause? {
        // The open got a file that another file has replaced as the document's file. No program waits for the writers
        // of a replaced file (R1). So this open does not wait either, and the contents are preserved.
        let mayCut = handle.truncates || handle.mayWrite && !handle.onlyAppends
        if mayCut, handle.writesToOrphan { return .orphan }
        if handle.truncates, unsavedStats.hasUnreadSave(handle.item, by: handle.thread) { return .presenter }
        if cleanWriters.endangers(grant, by: handle.claim) { return grant.preservationCause }
        // A program outside of the run has written a document of the run's leases (D237).
        return mayCut && context.engine.runs.hasForeignChange(of: handle.item, for: handle.identify)
            ? .claim : nil
    }
}

extension Grant {
    /// Whether the claim was granted although other programs use the file, or before all presenters have answered.
    fileprivate var passesOthers: Bool { preemptsMore || !preempted.isEmpty || !unanswered.isEmpty }
}
