// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import LinuxSystem
import VersionStore

/// The third step of an open: preserves the contents that the open would destroy, or that it would change in the store.
final class OpenPreservation: Sendable {
    /// The work that comes before a file is opened.
    enum Work {
        case ready
        /// Versions in the store are hard links to this file, and their writers have closed it. Each version gets its own copy
        /// before the file is written.
        case detachingLinks
        /// A preempted writer seems to have changed nothing. Before this open changes the file, the writer's file position is
        /// read, and its stores to mappings are written back.
        case observing(Grant, writesBack: Bool)
        /// The contents of the preempted writer are preserved.
        case preserving(Grant)
    }

    /// A program that waits for its open while work is done for it.
    struct Waiter: Sendable {
        /// False once the request was answered because of a signal or an unmount. Nothing is preserved for it then.
        let isAwaited: @Sendable () -> Bool
        /// Called once, at the end of the work: with false if the file must not be opened.
        let resume: @Sendable (_ mayOpen: Bool) -> Void
    }

    private let context: MountContext
    private let preserver: ContentPreserver
    private let cleanWriters: CleanWriters
    private let unsavedStats: UnsavedStats

    init(
        _ context: MountContext, _ preserver: ContentPreserver, _ cleanWriters: CleanWriters,
        _ unsavedStats: UnsavedStats
    ) {
        self.context = context
        self.preserver = preserver
        self.cleanWriters = cleanWriters
        self.unsavedStats = unsavedStats
    }

    /// Returns the next work before the file may be opened. If none is left, it has added the handle to the writers of the
    /// store's hard links.
    ///
    /// - Parameter grant: The grant of the handle's claim; nil if the contents were preserved, or if there is no claim.
    @inline(__always)
    func prepare(_ handle: Handle, _ grant: Grant?) -> Work {
        let isChange = handle.mayWrite || handle.truncates
        if isChange, handle.node.hasLinksWithoutWriters { return .detachingLinks }
        if let grant {
            let writesBack = cleanWriters.mayHoldDirtyPages(grant, on: handle.node)
            if writesBack || grant.preempted.contains(where: \.isClean) {
                return .observing(grant, writesBack: writesBack)
            }
            if cause(for: handle, grant) != nil { return .preserving(grant) }
        }
        // The last other writer may have closed the file meanwhile.
        return !isChange || preserver.join(handle) ? .ready : .detachingLinks
    }

    /// Does the work, on other threads unless the file is ready, and then resumes the open.
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
        }
    }

    /// Does the work that is still left. An interrupted open ends at once.
    private func proceed(_ handle: Handle, _ grant: Grant?, _ waiter: Waiter) {
        guard waiter.isAwaited() else { return waiter.resume(false) }
        perform(prepare(handle, grant), for: handle, grant, waiter)
    }

    private func observe(_ handle: Handle, _ grant: Grant, writesBack: Bool) {
        if writesBack { handle.node.writeBackStores() }
        // Of very many handles none is observed: each counts as having written when it ends.
        guard !grant.preemptsMore else { return }
        for writer in cleanWriters.writers(passedBy: grant) where cleanWriters.hasYieldedClean(writer) {
            writer.recordObservedPosition()
        }
    }

    /// Preserves the contents of the preempted writer, which this open would destroy.
    private func preserve(for handle: Handle, _ grant: Grant, _ waiter: Waiter) {
        context.work(on: handle.node, for: .preserving) { [self] in
            do throws(StoreError) {
                // An interrupted open preempts nothing.
                let cause = waiter.isAwaited() ? cause(for: handle, grant) : nil
                if let cause, !handle.onlyAppends {
                    try preserver.preserveContents(
                        of: handle.node, because: cause, by: handle, doubting: context.isTimeRacy
                    ) { proceed(handle, nil, waiter) }
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

    /// Why the contents of a file are preserved before it is opened; nil if no program loses contents.
    private func cause(for handle: Handle, _ grant: Grant) -> PreservationCause? {
        // This open got a file that is no longer the document. Writers of that file do not delay programs that wait for the
        // document (R1), so the contents are preserved first.
        let mayCut = handle.truncates || handle.mayWrite && !handle.onlyAppends
        if mayCut, handle.writesToOrphan { return .orphan }
        if handle.truncates, unsavedStats.hasUnreadSave(handle.item, by: handle.thread) { return .presenter }
        return cleanWriters.endangers(grant, by: handle.claim) ? grant.preservationCause : nil
    }
}
