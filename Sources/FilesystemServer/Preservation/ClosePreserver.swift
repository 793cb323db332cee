// SPDX-License-Identifier: Apache-2.0
import Glibc
import LinuxSystem

/// Preserves the contents that a writer leaves in a file at close(2), while other writers have the file open (D149).
///
/// Usually the kernel answers close(2) before the daemon learns of the close, and a suspended writer may write in
/// between. Where that can happen, the kernel sends a FLUSH request and waits. The daemon answers the FLUSH when the
/// contents are preserved.
final class ClosePreserver: Sendable {
    private let context: MountContext
    private let preserver: ContentPreserver
    private let cleanWriters: CleanWriters
    private let sightings: Sightings
    private let processes: ProcessResolver
    private let handles: HandleTable

    init(
        _ context: MountContext, _ tree: FileTree, _ preserver: ContentPreserver,
        _ cleanWriters: CleanWriters, _ sightings: Sightings
    ) {
        self.context = context
        self.preserver = preserver
        self.cleanWriters = cleanWriters
        self.sightings = sightings
        processes = context.processes
        handles = tree.handles
    }

    /// Returns whether the kernel must send a FLUSH request at each close(2) of the handle. This costs one request for
    /// each close.
    ///
    /// A program that opens a file to read and write often keeps the file open. So FLUSH is needed for it even if no
    /// other writer exists yet.
    func needsFlush(_ handle: Handle) -> Bool {
        if handle.hasErrorsAtClose { return true }
        guard handle.mayWrite, handle.isClaimed else { return false }
        return handle.flags & O_ACCMODE == O_RDWR || isBesideWriters(handle)
    }

    private func isBesideWriters(_ handle: Handle) -> Bool {
        let node = handle.node
        guard node.isOpen(besides: 1) else { return false }
        return handles.writers(on: node).contains { $0 !== handle }
    }

    /// If another writer may overwrite the contents that a writer leaves, preserves these contents. Then calls
    /// `answer`.
    ///
    /// A child process may close a copy of the descriptor when it ends or runs another program. Nothing is preserved
    /// then.
    func preserveAtClose(
        atCloseOf handle: Handle, by thread: Int32, then answer: @escaping @Sendable () -> Void
    ) {
        let node = handle.node
        guard handle.hasClaim, node.isOpen(besides: 1), isOpener(thread, of: handle) else {
            return answer()
        }
        let unchanged = cleanWriters.unchangedWriters(of: node, besides: handle)
        guard !unchanged.isEmpty || cleanWriters.mayBeOverwrittenUnseen(handle) else { return answer() }
        // Another close of the same handle may be preserving the same contents just now. This close waits until that
        // version is on the disk, and is then tried again.
        let again = { @Sendable [self] in preserveAtClose(atCloseOf: handle, by: thread, then: answer) }
        guard handle.beginPreservationAtClose(orElse: again) else { return }
        node.threads(for: .processObservation).run { [self] in
            preserveAtClose(by: handle, to: unchanged) {
                answer()
                for closer in handle.endPreservationAtClose() { closer() }
            }
        }
    }

    private func preserveAtClose(
        by handle: Handle, to unchanged: [Handle], then answer: @escaping @Sendable () -> Void
    ) {
        let node = handle.node
        let hasWritten = cleanWriters.mayHaveWritten(handle)
        guard let status = node.presentStatus else { return answer() }
        if hasWritten || handle.truncates { sightings.noteLeft(by: handle, as: Stamp(status)) }
        let isSure = !context.isTimeRacy(status) && !handle.hasUnseenStores
        guard handle.recordClose(Stamp(status), isSure: isSure, hasWritten: hasWritten) else {
            return answer()
        }
        let still = hasWritten || handle.truncates ? unchanged.filter(cleanWriters.isStillUnchanged) : []
        context.work(on: node, for: .preserving) { [self] in
            cleanWriters.rebaseline(node, to: still, by: handle)
            if hasWritten, cleanWriters.mayBeOverwrittenUnseen(handle) { preserveVersion(leftBy: handle) }
            answer()
        }
    }

    /// Preserves the contents of a file as a version, unless they equal the handle's last version.
    ///
    /// `atEnd`: whether the kernel has released the handle. If contents were already preserved at close(2), any later
    /// contents count as written by a suspended writer.
    func preserveVersion(leftBy handle: Handle, atEnd: Bool = false) {
        let former = handle.versionAtClose
        let origin: SuspendedWriterVersions.Origin = atEnd && handle.isPreservedAtClose ? .writer : .others
        guard
            let version = preserver.preserveBesideSuspendedWriter(
                in: handle.node, by: handle, after: former, from: origin)
        else {
            return
        }
        handle.noteVersionAtClose(version)
    }

    private func isOpener(_ thread: Int32, of handle: Handle) -> Bool {
        thread == handle.thread || processes.process(ofOpener: thread) == handle.process
    }
}

extension Handle {
    /// Whether close(2) may report an error that no write(2) has reported.
    var hasErrorsAtClose: Bool { mayWrite && !node.isMachineLocal }
}
