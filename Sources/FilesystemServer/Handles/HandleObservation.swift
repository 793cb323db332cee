// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import Glibc
import LinuxSystem

/// Observes how a program uses an open file while other claims wait for the program's claim.
extension Handle {
    var observationThreads: LazyWorkerPool? {
        if node.isDistant || mayHoldDirtyPages { return node.threads(for: .fileObservation) }
        // To observe a reader and some writers, the daemon reads the descriptors of the program's process. Other files
        // of that process may make this slow. So these observations run on a separate pool of threads, and all other
        // observations on the engine's threads.
        return mayWrite && (onlyAppends || truncates) ? nil : node.threads(for: .processObservation)
    }

    func observe() -> Observation {
        guard mayWrite else { return observeReading() }
        writeBackStores()
        let seen = observeWriting()
        guard seen == .clean, !onlyAppends else { return seen }
        let position = position
        // The program may have written between the first check of the file and the reading of the file offset.
        guard observeWriting() == .clean else { return observeWriting() }
        noteObservedPosition(at: position)
        return .unchanged(position: position)
    }

    /// Observes a reader. A reader at the end of the file may not have noticed the end yet. So such a reader counts as reading
    /// for the time `readerIdle`.
    ///
    /// The time begins at the first observation of the reader at this offset, even if other claims begin to wait later.
    private func observeReading() -> Observation {
        let seen = processes.observeReader(thread: thread, or: process, of: node)
        guard case .atEndUnconfirmed(let position) = seen else { return seen }
        let since = noteObservedPosition(at: position)
        return Engine.now.since(since) > processes.readerIdle ? .atEnd : seen
    }

    /// The file offset of the writing program; -1 if it cannot be read.
    private var position: Int64 {
        processes.position(ofWriter: thread, or: process, of: node, mode: flags & O_ACCMODE)
    }

    /// Records the file offset of a writer that lets other programs go ahead. Before a later claim changes the file, the
    /// recorded offset is compared with the present offset.
    func recordObservedPosition() {
        let position = position
        if observeWriting() == .clean { noteObservedPosition(at: position) }
    }

    /// Whether a writer's file offset differs from the recorded one, or cannot be read.
    var hasMoved: Bool {
        guard let observedPosition, observedPosition.position >= 0 else { return true }
        return position != observedPosition.position
    }

    /// Compares the file's status with the baseline to observe whether the file has changed. Does not wait for the kernel.
    func observeWriting() -> Observation {
        let status: FileStatus
        do throws(Errno) {
            status = try node.descriptor().descriptor.status()
        } catch {
            // A file with a status that cannot be read counts as being written permanently. The claim still ends after the time
            // `hold`.
            return .dirty(stamp: Engine.now.nanoseconds)
        }
        let stamp = Stamp(status)
        let (baseline, hasWritten, isReclaimed) = writing
        // Without a baseline, the open is not answered yet. The answer waits until the contents that the open would destroy are
        // preserved.
        guard let baseline else { return .emptied }
        guard stamp == baseline.stamp, !hasWritten else { return .dirty(stamp: stamp.number) }
        if !isReclaimed, truncates || flags & O_CREAT != 0 { return .emptied }
        return baseline.isRacy || hasUnseenStores ? .dirty(stamp: stamp.number) : .clean
    }
}
