// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge
import LinuxSystem
import Synchronization

/// Pools of threads for work that may block, apart from the threads that all requests share.
package final class WorkerPools: Sendable {
    enum WorkKind: Hashable {
        /// Work on files of file systems that may wait for a network or another process, without limit.
        case work
        /// Writes and syncs files; a slow or frozen file system delays only these threads.
        case writing, syncing
        /// Writes the stores to mappings, which may have to wait for writers.
        case storing
        /// Preserves contents, which are copied and must reach the disk.
        case preserving
        /// Observes files. The kernel may first have to write to them by requests, which other threads answer.
        case fileObservation
        /// Observes reading programs in `/proc`.
        case processObservation
        /// Makes files as the user that asked for them.
        case making
        /// Starts opens of users with many waiting opens; each may wait for a lease or a slow file system.
        case opening
    }

    private struct Key: Hashable {
        let slot: UInt64
        let purpose: WorkKind
    }

    /// Assigns threads to mounts, in the order in which the mounts appear.
    package struct Slots {
        private var byMount: [UInt64: UInt64] = [:]

        package init() {}

        /// The slot of a mount; later mounts than the limit share the threads of others.
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

    /// The pool for the files of one mount, so that a blocked mount does not delay other mounts.
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

extension MountContext {
    /// Does work that may block.
    func work(
        on node: Node, for purpose: WorkerPools.WorkKind = .work, _ body: @escaping @Sendable () -> Void
    ) {
        let isQuick = purpose == .work && !node.isDistant
        if isQuick { engine.workers.run(body) } else { node.threads(for: purpose).run(body) }
    }

    /// Answers a request after its wait.
    ///
    /// The calling thread is shared by all requests: that of the timers or of the control socket. These must not do
    /// what `mayBlock` even on a local file, such as an open that waits for a lease. Threads that serve requests may.
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
