// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge
import LinuxSystem
import Synchronization

/// Threads besides those that everybody waits for.
package final class WorkerPools: Sendable {
    enum WorkKind: Hashable {
        /// What is done to files whose file system may wait for a network or another process, and so for ever.
        case work
        /// Writes to files, and has what was written reach the disk: what waits for a slow or frozen one is nobody else's wait.
        case writing, syncing
        /// Writes what was stored to mappings, for which those who write may have to wait.
        case storing
        /// Keeps what would be lost, which is copied and has to reach the disk.
        case preserving
        /// Looks at files, before which the kernel may have to write to them: by requests, which other threads answer.
        case fileObservation
        /// Looks at programs that read, in `/proc`.
        case processObservation
        /// Makes files as whoever asked for that.
        case making
        /// Begins the opens of users of whom many wait, which may wait for a lease or a slow file system in their turn.
        case opening
    }

    private struct Key: Hashable {
        let slot: UInt64
        let purpose: WorkKind
    }

    /// Which threads are whose, in the order in which mounts come up.
    package struct Slots {
        private var byMount: [UInt64: UInt64] = [:]

        package init() {}

        /// Mounts come and go; those that come after so many share their threads.
        package mutating func slot(of mount: UInt64) -> UInt64 {
            if let known = byMount[mount] { return known }
            guard byMount.count < WorkerPools.mounts else { return mount % UInt64(WorkerPools.mounts) }
            let slot = UInt64(byMount.count)
            byMount[mount] = slot
            return slot
        }
    }

    private struct State {
        var slots = Slots()
        var pools: [Key: LazyWorkerPool] = [:]
    }

    private static let threads = 8
    package static let mounts = 16

    private let state = Mutex(State())
    private let timers: Timers
    private let workers: WorkerPool

    init(by timers: Timers, else workers: WorkerPool) {
        self.timers = timers
        self.workers = workers
    }

    /// Those for the files of one mount: what it keeps, keeps no other.
    func of(_ mount: UInt64, for purpose: WorkKind) -> LazyWorkerPool {
        state.withLock { state in
            let key = Key(slot: state.slots.slot(of: mount), purpose: purpose)
            if let known = state.pools[key] { return known }
            let made = LazyWorkerPool(
                threads: Self.threads, by: timers, else: workers,
                onThreadStart: ThreadIdentity.prepareIfPossible)
            state.pools[key] = made
            return made
        }
    }

    /// Waits for all work, until a moment of the monotonic clock in nanoseconds. Returns whether it is done.
    func finish(until moment: UInt64) -> Bool {
        let observationThreads: Set<WorkKind> = [.fileObservation, .processObservation]
        let pools = state.withLock { $0.pools.filter { !observationThreads.contains($0.key.purpose) } }
        return pools.values.reduce(true) { $1.finish(until: moment) && $0 }
    }
}

extension CoordinatedFilesystem {
    /// Does something that may block.
    func work(
        on node: Node, for purpose: WorkerPools.WorkKind = .work, _ body: @escaping @Sendable () -> Void
    ) {
        let isQuick = purpose == .work && !node.isDistant
        if isQuick { engine.workers.run(body) } else { node.threads(for: purpose).run(body) }
    }

    /// Answers a request whose wait is over.
    ///
    /// What decides is one of those threads that everybody waits for: of the timers, or of the control socket. What `mayBlock`
    /// even where nothing is far away, as who opens a file waits for those who have a lease on it, is nothing for them; those
    /// that serve requests get help.
    func resumeRequest(
        _ node: Node?, _ reply: consuming Reply, mayBlock: Bool = false,
        _ body: @escaping @Sendable (consuming Reply) -> Void
    ) {
        guard let node, node.isDistant || mayBlock && !ThreadIdentity.isPrepared else { return body(reply) }
        let parked = Parked(reply)
        work(on: node) {
            if let reply = parked.take() { body(reply) }
        }
    }
}
