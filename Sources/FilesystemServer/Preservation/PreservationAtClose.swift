// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import Glibc
import LinuxSystem
import Synchronization
import VersionStore

/// What a writer leaves in a file at close(2), while other writers have the file open (D149).
///
/// The kernel answers close(2) before it tells of the end of the handle. A suspended program may write in between. So the
/// kernel is told to ask at close(2) itself where that may be, and the answer comes when the contents are kept.
extension CoordinatedFilesystem {
    /// Whether the kernel asks at each close(2) of a file that was there before, which takes a request more.
    ///
    /// A program that opens a file to read and write often keeps it open, so that writers come that were not there yet.
    func needsFlush(_ handle: Handle) -> Bool {
        if handle.hasErrorsAtClose { return true }
        guard handle.mayWrite, handle.isClaimed else { return false }
        return handle.flags & O_ACCMODE == O_RDWR || isBesideWriters(handle)
    }

    private func isBesideWriters(_ handle: Handle) -> Bool {
        let node = handle.node
        guard node.state.withLock({ $0.opens > 1 }) else { return false }
        return handles.writers(on: node).contains { $0 !== handle }
    }

    /// Keeps what a writer leaves if another one may write over it without being seen, and then answers.
    ///
    /// A process that has a copy of the descriptor from its parent closes it when it ends or runs another program, and leaves nothing.
    func preserveAtClose(
        atCloseOf handle: Handle, by thread: Int32, then answer: @escaping @Sendable () -> Void
    ) {
        let node = handle.node
        guard handle.hasClaim, node.state.withLock({ $0.opens > 1 }), isOpener(thread, of: handle) else {
            return answer()
        }
        let unchanged = unchangedWriters(of: node, besides: handle)
        guard !unchanged.isEmpty || mayBeOverwrittenUnseen(handle) else { return answer() }
        // One that is kept just now may be all that there is, but is not kept yet.
        let again = { @Sendable [self] in preserveAtClose(atCloseOf: handle, by: thread, then: answer) }
        guard handle.beginCloseRecord(orElse: again) else { return }
        node.threads(for: .processObservation).run { [self] in
            preserveAtClose(by: handle, to: unchanged) {
                answer()
                for closer in handle.endCloseRecord() { closer() }
            }
        }
    }

    private func preserveAtClose(
        by handle: Handle, to unchanged: [Handle], then answer: @escaping @Sendable () -> Void
    ) {
        let node = handle.node
        let hasWritten = mayHaveWritten(handle)
        guard let status = node.presentStatus else { return answer() }
        let isSure = !isTimeRacy(status) && !handle.hasUnseenStores
        guard handle.recordClose(status, isSure: isSure, hasWritten: hasWritten) else { return answer() }
        let still = hasWritten || handle.truncates ? unchanged.filter(isStillUnchanged) : []
        work(on: node, for: .preserving) { [self] in
            rebaseline(node, to: still, by: handle)
            if hasWritten, mayBeOverwrittenUnseen(handle) { preserveVersion(leftBy: handle) }
            answer()
        }
    }

    /// Keeps what a file holds as a version, unless that is what was kept for the handle before.
    ///
    /// When the handle ends, what is there beyond that may be a suspended writer's.
    func preserveVersion(leftBy handle: Handle, atEnd: Bool = false) {
        let former = handle.state.withLock { $0.closeRecord?.version }
        let origin: SuspendedWriterVersions.Origin = atEnd && handle.isPreservedAtClose ? .writer : .others
        guard
            let version = preserver.preserveBesideSuspendedWriter(
                in: handle.node, by: handle, after: former, from: origin)
        else {
            return
        }
        handle.state.withLock { $0.closeRecord?.version = version }
    }

    private func isOpener(_ thread: Int32, of handle: Handle) -> Bool {
        thread == handle.thread || processes.process(ofOpener: thread) == handle.process
    }
}

/// What a file looked like when its writer was last answered at close(2).
struct CloseRecord {
    let stamp: Stamp
    /// Whether the stamp tells each later change.
    let isSure: Bool
    /// How often the contents were copied.
    let count: Int
    /// What was kept last of them as a version.
    var version: VersionID?
}

extension Handle {
    /// A shell closes copies of its own for each command, and the kernel does not say which copy is the last. After so many that left
    /// something, contents are kept when the handle ends: a long log is not copied for each line.
    private static let mostRecordedCloses = 3

    /// Whether close(2) has errors to tell that no write told.
    var hasErrorsAtClose: Bool { mayWrite && !node.isMachineLocal }

    /// Whether all that it left was kept at close(2). What comes after that is not this writer's.
    var isPreservedAtClose: Bool {
        state.withLock { $0.closeRecord.map { $0.count <= Self.mostRecordedCloses } ?? false }
    }

    /// Returns whether something may be left that was not kept at a close(2) before.
    fileprivate func recordClose(_ status: FileStatus, isSure: Bool, hasWritten: Bool) -> Bool {
        let stamp = Stamp(status)
        return state.withLock { state in
            let former = state.closeRecord
            if let former, former.isSure, isSure, former.stamp.hasSameContents(as: stamp) { return false }
            let count = (former?.count ?? 0) + (hasWritten && status.size > 0 ? 1 : 0)
            state.closeRecord = CloseRecord(
                stamp: stamp, isSure: isSure, count: count, version: former?.version)
            return count <= Self.mostRecordedCloses
        }
    }

    /// Returns false if contents are being kept at another close(2) of the same handle; then `again` waits for that.
    fileprivate func beginCloseRecord(orElse again: @escaping @Sendable () -> Void) -> Bool {
        state.withLock { state in
            state.closers?.append(again)
            guard state.closers == nil else { return false }
            state.closers = []
            return true
        }
    }

    fileprivate func endCloseRecord() -> [@Sendable () -> Void] {
        state.withLock { $0.closers.take() ?? [] }
    }
}
