// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import Glibc
import LinuxSystem
import Synchronization

/// A place in a file where a program stands.
struct ObservedPosition {
    let position: Int64
    /// When it was seen there first.
    let since: Instant
}

/// The engine looks at an open file when others wait for it.
extension Handle {
    var observationThreads: LazyWorkerPool? {
        if node.isDistant || mayHoldDirtyPages { return node.threads(for: .fileObservation) }
        // What readers do with the looks that others give their descriptors is theirs to choose; and so it is for writers that
        // may have to be looked at in the same way.
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

    /// A reader at the end of the data is let stand there for a while, since it may not have been told that there is no more; but
    /// once for each position, however often others come to wait for it.
    private func observeReading() -> Observation {
        let seen = processes.observeReader(thread: thread, or: process, of: node)
        guard case .atEndUnconfirmed(let position) = seen else { return seen }
        let since = noteObservedPosition(at: position)
        return Engine.now.since(since) > processes.readerIdle ? .atEnd : seen
    }

    /// Returns since when it stands there, as far as it was seen.
    @discardableResult
    private func noteObservedPosition(at position: Int64) -> Instant {
        let now = Engine.now
        return state.withLock { state in
            if let observedPosition = state.observedPosition, observedPosition.position == position {
                return observedPosition.since
            }
            state.observedPosition = ObservedPosition(position: position, since: now)
            return now
        }
    }

    /// Where a writer's program stands in the file; -1 if that cannot be read.
    private var position: Int64 {
        processes.position(ofWriter: thread, or: process, of: node, mode: flags & O_ACCMODE)
    }

    /// A writer that let others pass is looked at again before one of them changes the file.
    func recordObservedPosition() {
        let position = position
        if observeWriting() == .clean { noteObservedPosition(at: position) }
    }

    /// Whether a writer's program stands elsewhere than when it was known to have changed nothing, or where that cannot be read.
    var hasMoved: Bool {
        guard let observedPosition = state.withLock({ $0.observedPosition }), observedPosition.position >= 0
        else { return true }
        return position != observedPosition.position
    }

    /// What a writer has done, as far as its file shows it; never waits for the kernel.
    func observeWriting() -> Observation {
        let status: FileStatus
        do throws(Errno) {
            status = try node.descriptor().descriptor.status()
        } catch {
            // A file that cannot be looked at is taken to be written all the time: `hold` bounds that.
            return .dirty(stamp: Engine.now.nanoseconds)
        }
        let stamp = Stamp(status)
        let (baseline, isTimeRacy, isFirst, hasWritten) = state.withLock {
            ($0.baseline, $0.isBaselineRacy, $0.renewedClaim == nil, $0.hasWritten)
        }
        // Its open waits until what it would lose is kept.
        guard let baseline else { return .emptied }
        guard stamp == baseline, !hasWritten else { return .dirty(stamp: stamp.number) }
        if isFirst, truncates || flags & O_CREAT != 0 { return .emptied }
        return isTimeRacy || hasUnseenStores ? .dirty(stamp: stamp.number) : .clean
    }
}
