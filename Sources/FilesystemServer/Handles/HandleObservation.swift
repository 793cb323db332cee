// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import Glibc
import LinuxSystem

/// Observations of an open file by the engine, while other claims wait for it.
extension Handle {
    var observationThreads: LazyWorkerPool? {
        if node.isDistant || mayHoldDirtyPages { return node.threads(for: .fileObservation) }
        // Other programs choose the files of a reader's descriptors, so an observation of them may take long. The same
        // holds for writers that may have to be observed in that way.
        return mayWrite && (onlyAppends || truncates) ? nil : node.threads(for: .processObservation)
    }

    func observe() -> Observation {
        guard mayWrite else { return observeReading() }
        writeBackStores()
        let seen = observeWriting()
        guard seen == .clean, !onlyAppends else { return seen }
        let position = position
        // It may have written before its position was read.
        guard observeWriting() == .clean else { return observeWriting() }
        noteObservedPosition(at: position)
        return .unchanged(position: position)
    }

    /// A reader at the end of the data may stay there for a while, since it may not have read the end of file yet. This
    /// happens once for each position, however often other claims begin to wait.
    private func observeReading() -> Observation {
        let seen = processes.observeReader(thread: thread, or: process, of: node)
        guard case .atEndUnconfirmed(let position) = seen else { return seen }
        let since = noteObservedPosition(at: position)
        return Engine.now.since(since) > processes.readerIdle ? .atEnd : seen
    }

    /// The position of a writer's program in the file; -1 if it cannot be read.
    private var position: Int64 {
        processes.position(ofWriter: thread, or: process, of: node, mode: flags & O_ACCMODE)
    }

    /// Records the position of a writer that let others go ahead. It is observed again before a later claim changes the file.
    func recordObservedPosition() {
        let position = position
        if observeWriting() == .clean { noteObservedPosition(at: position) }
    }

    /// Whether a writer's position has changed since it was clean, or cannot be read.
    var hasMoved: Bool {
        guard let observedPosition, observedPosition.position >= 0 else { return true }
        return position != observedPosition.position
    }

    /// Observes a writer's changes by the status of its file; never waits for the kernel.
    func observeWriting() -> Observation {
        let status: FileStatus
        do throws(Errno) {
            status = try node.descriptor().descriptor.status()
        } catch {
            // A file without a readable status counts as being written constantly. `hold` limits that.
            return .dirty(stamp: Engine.now.nanoseconds)
        }
        let stamp = Stamp(status)
        let (baseline, hasWritten, isReclaimed) = writing
        // The handle's open waits until the contents that it would destroy are preserved.
        guard let baseline else { return .emptied }
        guard stamp == baseline.stamp, !hasWritten else { return .dirty(stamp: stamp.number) }
        if !isReclaimed, truncates || flags & O_CREAT != 0 { return .emptied }
        return baseline.isRacy || hasUnseenStores ? .dirty(stamp: stamp.number) : .clean
    }
}
