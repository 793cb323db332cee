// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import VersionStore

/// The third step of an open: preserves the contents that the open would destroy, or that it would change in the store.
final class OpenPreservation: Sendable {
    /// The work that comes before a file is opened.
    enum Work {
        case none
        /// Links in the store share the file's contents with no writer. Each gets its own copy before the file is written.
        case detachingLinks
        /// A preempted handle without changes must be observed before the file is changed. Then contents may be preserved.
        case observing(writesBack: Bool)
        /// The contents of the preempted writer are preserved.
        case preserving
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

    /// The work that is left before the handle's file may be opened. If none is left, the handle has become a writer of the
    /// links in the store.
    ///
    /// - Parameter grant: The grant of the handle's claim; nil if no contents are at risk any more.
    func work(for handle: Handle, _ grant: Grant?) -> Work {
        let isChange = handle.mayWrite || handle.truncates
        if isChange, handle.node.hasLinksWithoutWriters { return .detachingLinks }
        if let grant {
            let writesBack = cleanWriters.mayHoldDirtyPages(grant, on: handle.node)
            if writesBack || grant.preempted.contains(where: \.isClean) {
                return .observing(writesBack: writesBack)
            }
            if cause(for: handle, grant) != nil { return .preserving }
        }
        // The last other writer may have closed the file meanwhile.
        return !isChange || preserver.join(handle) ? .none : .detachingLinks
    }

    /// Does the work on other threads, and then calls `then`: with false if the file must not be opened.
    ///
    /// - Parameter isAwaited: Whether the program still waits. An interrupted open preempts nothing.
    func perform(
        _ work: Work, for handle: Handle, _ grant: Grant?, isAwaited: @escaping @Sendable () -> Bool,
        then: @escaping @Sendable (_ mayOpen: Bool) -> Void
    ) {
        switch (work, grant) {
        case (.detachingLinks, _):
            context.work(on: handle.node, for: .preserving) { [self] in
                do throws(StoreError) { try preserver.detachLinks(of: handle.node) } catch {
                    return then(false)
                }
                perform(self.work(for: handle, grant), for: handle, grant, isAwaited: isAwaited, then: then)
            }
        case (.observing(let writesBack), let grant?):
            handle.node.threads(for: writesBack ? .fileObservation : .processObservation).run { [self] in
                observe(handle, grant, writesBack: writesBack)
                preserve(for: handle, grant, isAwaited: isAwaited, then: then)
            }
        case (.preserving, let grant?): preserve(for: handle, grant, isAwaited: isAwaited, then: then)
        case (.none, _), (_, nil): then(true)
        }
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
    private func preserve(
        for handle: Handle, _ grant: Grant, isAwaited: @escaping @Sendable () -> Bool,
        then: @escaping @Sendable (_ mayOpen: Bool) -> Void
    ) {
        let open: @Sendable () -> Void = { [self] in
            perform(self.work(for: handle, nil), for: handle, nil, isAwaited: isAwaited, then: then)
        }
        context.work(on: handle.node, for: .preserving) { [self] in
            do throws(StoreError) {
                let cause = isAwaited() ? cause(for: handle, grant) : nil
                if let cause, !handle.onlyAppends {
                    try preserver.preserveContents(
                        of: handle.node, because: cause, by: handle, doubting: context.isTimeRacy,
                        before: open)
                } else {
                    if let cause {
                        try preserver.preserveContents(of: handle.node, because: cause, by: handle)
                    }
                    open()
                }
            } catch {
                then(false)
            }
            preserver.letGoOfGrown(by: handle)
        }
    }

    /// Why the contents of a file are preserved before it is opened; nil if no program loses contents.
    private func cause(for handle: Handle, _ grant: Grant) -> PreservationCause? {
        // A link in the store may have the contents of a replaced file, for the programs that still write to that file. Rule R1:
        // a program that waits for the document does not wait for these programs.
        let mayCut = handle.truncates || handle.mayWrite && !handle.onlyAppends
        if mayCut, handle.writesToOrphan { return .orphan }
        if handle.truncates, unsavedStats.hasUnreadSave(handle.item, by: handle.thread) { return .presenter }
        return cleanWriters.endangers(grant, by: handle.claim) ? grant.preservationCause : nil
    }
}
