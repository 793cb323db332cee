// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import Glibc
import LinuxSystem

/// Observes what a program does with an open file, while other claims wait for its claim.
extension Handle {
    var observationThreads: LazyWorkerPool? {
        if node.isDistant || mayHoldDirtyPages { return node.threads(for: .fileObservation) }
        // To observe a reader, the daemon reads the descriptors of its process. Other files of that process may make this slow.
        // Some writers must be observed in the same manner. So threads of another pool make these observations.
        return mayWrite && (onlyAppends || truncates) ? nil : node.threads(for: .processObservation)
    }

    func observe() -> Observation {
        guard mayWrite else { return observeReading() }
        writeBackStores()
        let seen = observeWriting()
        guard seen == .clean, !onlyAppends else { return seen }
        let position = position
        // The program may have written after the first observation and before its position was read.
        guard observeWriting() == .clean else { return observeWriting() }
        noteObservedPosition(at: position)
        return .unchanged(position: position)
    }

    /// Observes a reader. A reader at the end of the file may not have noticed the end yet, so it counts as reading for a
    /// while.
    ///
    /// The time begins when the reader is first observed at this position, however often other claims begin to wait.
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

    /// Records the file offset of a writer that lets other programs go ahead. It is compared before a later claim changes the
    /// file.
    func recordObservedPosition() {
        let position = position
        if observeWriting() == .clean { noteObservedPosition(at: position) }
    }

    /// Whether a writer's file offset differs from the recorded one, or cannot be read.
    var hasMoved: Bool {
        guard let observedPosition, observedPosition.position >= 0 else { return true }
        return position != observedPosition.position
    }

    /// Observes by the status of the file whether it has changed. Does not wait for the kernel.
    func observeWriting() -> Observation {
        let status: FileStatus
        do throws(Errno) {
            status = try node.descriptor().descriptor.status()
        } catch {
            // A file whose status cannot be read counts as being written all the time. The time limit `hold` ends this.
            return .dirty(stamp: Engine.now.nanoseconds)
        }
        let stamp = Stamp(status)
        let (baseline, hasWritten, isReclaimed) = writing
        // The handle has no baseline before its open is answered. The open waits until the contents that it would destroy are
        // preserved.
        guard let baseline else { return .emptied }
        guard stamp == baseline.stamp, !hasWritten else { return .dirty(stamp: stamp.number) }
        if !isReclaimed, truncates || flags & O_CREAT != 0 { return .emptied }
        return baseline.isRacy || hasUnseenStores ? .dirty(stamp: stamp.number) : .clean
    }
}
