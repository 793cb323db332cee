// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge
import LinuxSystem
import Synchronization

/// Pools of threads for work that may block. The threads that answer requests are not among them.
package final class WorkerPools: Sendable {
    enum WorkKind: Hashable {
        /// Work on files of a file system that may wait without limit for a network or another process.
        case work
        /// Writes and syncs files. A slow or frozen file system delays only these threads.
        case writing, syncing
        /// Writes to files what programs have stored to mappings of them. Such a write may have to wait for other
        /// writers.
        case storing
        /// Preserves contents: copies them, and waits until the copy is on the disk.
        case preserving
        /// Observes whether files have changed. The kernel may first have to write to the files by requests, which other
        /// threads answer.
        case fileObservation
        /// Observes the file positions of programs in `/proc`.
        case processObservation
        /// Makes files with the rights of the user that asked for them.
        case making
        /// Starts opens of users that have many waiting opens. Each open may have to wait for a lease or a slow file
        /// system.
        case opening
    }

    private struct Key: Hashable {
        let slot: UInt64
        let purpose: WorkKind
    }

    /// Assigns a group of threads (a slot) to each mount in the source, in the order in which the mounts appear.
    package struct Slots {
        private var byMount: [UInt64: UInt64] = [:]

        package init() {}

        /// Returns the slot of a mount. The first ``mounts`` mounts have a slot each; each later mount shares the slot of
        /// another mount.
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

    /// Returns the thread pool for one kind of work on the files of one mount, so that a blocked mount does not delay
    /// other mounts.
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

    /// Waits until all work is done, but no longer than until a moment of the monotonic clock in nanoseconds. Returns
    /// whether the work is done. Observations are not waited for.
    func finish(until moment: UInt64) -> Bool {
        let observationThreads: Set<WorkKind> = [.fileObservation, .processObservation]
        let pools = state.withLock { $0.pools.filter { !observationThreads.contains($0.key.purpose) } }
        return pools.values.reduce(true) { $1.finish(until: moment) && $0 }
    }
}

extension MountContext {
    /// Runs work on a file that may block, on a thread of its mount if the file is distant. Quick work on local files
    /// runs on a common worker.
    func work(
        on node: Node, for purpose: WorkerPools.WorkKind = .work, _ body: @escaping @Sendable () -> Void
    ) {
        let isQuick = purpose == .work && !node.isDistant
        if isQuick { engine.workers.run(body) } else { node.threads(for: purpose).run(body) }
    }

    /// Goes on with a request after its wait, by a call of `body`.
    ///
    /// The calling thread belongs to the timers or the control socket, and all requests share it. So if `body` may block,
    /// it runs on a worker. `mayBlock` means that `body` may block even on a local file, such as an open that waits for a
    /// lease. Threads that answer requests may block in this way.
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
